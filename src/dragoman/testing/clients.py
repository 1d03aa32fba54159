"""Simulated clients of the core level: they ask, ask again, change their minds, and flood."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dragoman.core.effects import SendReply
from dragoman.core.events import (
    Event,
    InputReceived,
    JobCancelled,
    JobSubmitted,
    PeerLeft,
    ReplyKind,
    ResultRequested,
)
from dragoman.model.body import Body
from dragoman.model.job import FINAL
from dragoman.model.names import JobId, PeerId, WorkerName
from dragoman.testing.oracle import Oracle
from dragoman.testing.workload import LINK, draw_job
from dragoman.testing.world import World

Speak = Callable[[Event], None]


class SimClient:
    """One client. It repeats what was not answered, and remembers what it was told."""

    def __init__(
        self,
        world: World,
        oracle: Oracle,
        name: str,
        workers: tuple[WorkerName, ...],
        speak: Speak,
    ) -> None:
        self.world = world
        self.oracle = oracle
        self.name = name
        self.peer = PeerId(f"{LINK}/{name}")
        self.workers = workers
        self.speak = speak
        self.is_up = True
        #: What is not answered finally, by job.
        self.open: dict[JobId, JobSubmitted] = {}
        self.ended: set[JobId] = set()
        self._asked = 0

    # --- what it does -------------------------------------------------------------------------

    def ask(self) -> None:
        """Submit something new."""
        self._asked += 1
        job = JobId(f"{self.name}-{self._asked}")
        order = draw_job(self.world.random, job, self.peer, self.workers)
        self.open[job] = order
        self._submit(job)

    def flood(self) -> None:
        """Submit many jobs at once."""
        for _ in range(self.world.random.randint(8, 20)):
            self.ask()

    def _submit(self, job: JobId) -> None:
        if self.is_up and job in self.open:
            self.speak(self.open[job])
            self.world.after(3.0 + self.world.random.random(), self._again, job)

    def _again(self, job: JobId) -> None:
        """Repeat a request that has no final answer, or ask what became of it."""
        if not self.is_up or job not in self.open:
            return
        if job in self.oracle.acknowledged:
            self.speak(ResultRequested(job, self.peer))
            self.world.after(3.0, self._again, job)
        else:
            self._submit(job)

    def meddle(self, others: "list[SimClient]") -> None:
        """Do something to a job, one's own or another's, known or not."""
        random = self.world.random
        jobs = list(random.choice(others).open.values())
        order = random.choice(jobs) if jobs else None
        job = order.job if order else JobId("nobody's")
        draw = random.random()
        if draw < 0.40:
            self.speak(JobCancelled(job, self.peer))
        elif draw < 0.60:
            worker = random.choice((None, *self.workers))
            self.speak(InputReceived(job, self.peer, Body(LINK, (b"input",)), worker))
        elif draw < 0.70:
            self.speak(ResultRequested(job, self.peer))
        elif order is not None and draw < 0.80:
            self.speak(replace(order, body=Body(LINK, (b"another question",))))
        elif order is not None and draw < 0.90:
            self.speak(replace(order, client=self.peer))
        elif order is not None and order.key:
            self.speak(replace(order, job=JobId(f"{job}-again"), client=self.peer))

    def leave(self) -> None:
        """Say good-bye; what it asked for goes on."""
        self.speak(PeerLeft(self.peer, "left"))
        self.is_up = False

    def come_back(self) -> None:
        """Speak again, about everything that is not answered."""
        self.is_up = True
        for job in list(self.open):
            self._again(job)

    # --- what the broker says -----------------------------------------------------------------

    def hear(self, effect: Any) -> None:
        """Take one thing the broker said."""
        if not self.is_up:
            return
        if type(effect) is SendReply:
            self._reply(effect)
        elif effect.status is not None and effect.status.state in FINAL:
            self._over(effect.job)

    def _reply(self, reply: SendReply) -> None:
        self.oracle.told(reply)
        if reply.kind is ReplyKind.FINAL:
            self._over(reply.job)
        elif reply.kind is ReplyKind.INPUT_ASKED and not self.world.chance(0.3):
            answer = Body(LINK, (b"answer",))
            self.speak(InputReceived(reply.job, self.peer, answer, reply.worker))

    def _over(self, job: JobId) -> None:
        self.open.pop(job, None)
        self.ended.add(job)
