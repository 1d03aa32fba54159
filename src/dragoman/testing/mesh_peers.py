"""Peers of the mesh worlds: steady workers that count their runs, and clients that insist."""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from dragoman.core.effects import SendCancel, SendInput, SendReply, SendWork
from dragoman.core.events import (
    Event,
    InputReceived,
    JobCancelled,
    JobSubmitted,
    ReplyKind,
    ResultRequested,
    WorkerJoined,
)
from dragoman.model.body import Body
from dragoman.model.job import FINAL, JobState
from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.model.retry import Retry
from dragoman.model.terms import Terms
from dragoman.testing.oracle import Oracle
from dragoman.testing.workers import Key, SimWorker
from dragoman.testing.workload import LINK
from dragoman.testing.world import World

#: How long jobs run, in seconds: some end during a fault, and some go on after all of them.
DURATIONS: Final = (0.05, 0.5, 4.0, 12.0, 40.0)
_AGAIN_AFTER: Final = 3.0


class MeshWorker(SimWorker):
    """A worker without faults. It counts how often it begins each job."""

    def __init__(
        self,
        world: World,
        offer: WorkerJoined,
        send: Callable[[Event], None],
        runs: Counter[JobId],
    ) -> None:
        super().__init__(world, offer, send)
        # It does not report finished jobs, so the broker has to ask for their results.
        self.reports_holds, self.reports_attempt = False, True
        self.runs = runs

    def receive(self, effect: object) -> None:
        """Handle one effect of the broker; a cancel always succeeds."""
        if self.is_up and isinstance(effect, SendCancel):
            self._stop(effect)
        elif self.is_up and isinstance(effect, SendInput):
            self._take_input(effect)
        else:
            super().receive(effect)

    def _begin(self, key: Key) -> None:
        work, world = self.running[key], self.world
        self.runs[work.job] += 1
        self._reply(work, ReplyKind.ACCEPTED)
        world.after(world.random.choice(DURATIONS), self._finish, self.life, key, _outcome(work))

    def _take_input(self, effect: SendInput) -> None:
        for key in [k for k in self.running if k[0] == effect.job]:
            if _outcome(self.running[key]) == "ask":
                self._finish(self.life, key, "succeed")

    def _stop(self, effect: SendCancel) -> None:
        if (effect.job, effect.attempt) in self.running:
            self._finish(self.life, (effect.job, effect.attempt), "cancelled")

    def _body(self, work: SendWork) -> Body:
        # Another dialect than `LINK`: the checker would look for the name of the last worker.
        return Body("far", (work.body.parts[0],))


def _outcome(work: SendWork) -> str:
    """Return what becomes of a job: its request says so."""
    wanted = work.body.parts[1].decode()
    return "succeed" if wanted == "fail once" and work.attempt > 1 else wanted.split()[0]


class MeshClient:
    """A client of one broker. It repeats its requests until they are answered."""

    def __init__(
        self,
        world: World,
        oracle: Oracle,
        name: str,
        services: tuple[str, ...],
        send: Callable[[Event], None],
    ) -> None:
        self.world = world
        self.oracle = oracle
        self.name = name
        self.peer = PeerId(f"{LINK}/{name}")
        self.is_up = True
        self._services = services
        self._send = send
        #: Every request, and those without a final answer.
        self.submitted: dict[JobId, JobSubmitted] = {}
        self.open: dict[JobId, JobSubmitted] = {}

    def submit_new(self) -> None:
        """Submit a new job."""
        random = self.world.random
        job = JobId(f"{self.name}-{len(self.submitted) + 1}")
        outcome = random.choice(("succeed", "succeed", "succeed", "fail", "fail once", "ask"))
        terms = Terms(
            patience=None,
            timeout=random.choice((None, None, 20.0, 60.0)),
            retry=Retry(1, backoff=0.5) if outcome == "fail once" else Retry(),
        )
        body = Body(LINK, (job.encode(), outcome.encode()))
        service = ServiceName(random.choice(self._services))
        request = JobSubmitted(job, self.peer, service, body, terms=terms, task="task")
        self.submitted[job] = request
        self.open[job] = request
        self._insist(job)

    def _insist(self, job: JobId) -> None:
        """Repeat a request, or ask for its result, until it has ended."""
        if job not in self.open:
            return
        if self.open[job].body.parts[1] == b"ask":
            # The question may be lost with a link; this client knows that it will be asked.
            self._give_input(job)
        known = job in self.oracle.acknowledged
        self._send(ResultRequested(job, self.peer) if known else self.open[job])
        self.world.after(_AGAIN_AFTER, self._insist, job)

    def _give_input(self, job: JobId) -> None:
        self._send(InputReceived(job, self.peer, Body(LINK, (b"input",))))

    def cancel_one(self) -> None:
        """Cancel one of the open jobs."""
        if self.open:
            self._send(JobCancelled(self.world.random.choice(list(self.open)), self.peer))

    def receive(self, effect: Any) -> None:
        """Handle one effect of the broker."""
        if type(effect) is SendReply:
            self.oracle.client_received(effect)
            if effect.kind is ReplyKind.INPUT_ASKED:
                self._give_input(effect.job)
            elif effect.kind is ReplyKind.FINAL:
                self._check_answer(effect)
                self.open.pop(effect.job, None)
        elif effect.status is not None and effect.status.state in FINAL:
            self.open.pop(effect.job, None)

    def _check_answer(self, reply: SendReply) -> None:
        is_result = reply.state is JobState.SUCCEEDED
        right = not is_result or reply.body.parts == (reply.job.encode(),)
        self.oracle.require(right, f"{reply.job} is answered by {reply.body.parts!r}")
