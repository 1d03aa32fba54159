"""Simulated clients of the core level: they submit, repeat, cancel and flood."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from zlib import crc32

from dragoman.core.effects import SendReply
from dragoman.core.events import (
    Event,
    InputReceived,
    JobCancelled,
    JobSubmitted,
    PeerLeft,
    ReplyKind,
    ResultForgotten,
    ResultRequested,
)
from dragoman.model.body import Body
from dragoman.model.job import FINAL
from dragoman.model.names import JobId, PeerId, WorkerName
from dragoman.testing.oracle import Oracle
from dragoman.testing.workload import LINK, draw_job
from dragoman.testing.world import World

SendEvent = Callable[[Event], None]


class SimClient:
    """One client. It repeats unanswered requests and remembers final answers."""

    def __init__(
        self,
        world: World,
        oracle: Oracle,
        name: str,
        workers: tuple[WorkerName, ...],
        send: SendEvent,
    ) -> None:
        self.world = world
        self.oracle = oracle
        self.name = name
        self.peer = PeerId(f"{LINK}/{name}")
        self.workers = workers
        self.send = send
        self.is_up = True
        #: Requests without a final answer, by job.
        self.open: dict[JobId, JobSubmitted] = {}
        self.ended: set[JobId] = set()
        self._submitted = 0

    # --- what it does -------------------------------------------------------------------------

    def submit_new(self) -> None:
        """Submit a new job."""
        self._submitted += 1
        job = JobId(f"{self.name}-{self._submitted}")
        submission = draw_job(self.world.random, job, self.peer, self.workers)
        self.open[job] = submission
        self._submit(job)

    def flood(self) -> None:
        """Submit many jobs at once."""
        for _ in range(self.world.random.randint(8, 20)):
            self.submit_new()

    def _submit(self, job: JobId) -> None:
        if self.is_up and job in self.open:
            self.send(self.open[job])
            self.world.after(3.0 + self.world.random.random(), self._retry, job)

    def _retry(self, job: JobId) -> None:
        """Repeat a request without a final answer, or ask for its result."""
        if not self.is_up or job not in self.open:
            return
        if job in self.oracle.acknowledged:
            self.send(ResultRequested(job, self.peer))
            self.world.after(3.0, self._retry, job)
        else:
            self._submit(job)

    def interfere(self, others: "list[SimClient]") -> None:
        """Send something about a job, its own or another client's, known or unknown."""
        random = self.world.random
        jobs = list(random.choice(others).open.values())
        submission = random.choice(jobs) if jobs else None
        job = submission.job if submission else JobId("nobody's")
        draw = random.random()
        if draw < 0.40:
            self.send(JobCancelled(job, self.peer))
        elif draw < 0.60:
            worker = random.choice((None, *self.workers))
            self.send(InputReceived(job, self.peer, Body(LINK, (b"input",)), worker))
        elif draw < 0.70:
            self.send(ResultRequested(job, self.peer))
        elif submission is not None and draw < 0.80:
            self.send(replace(submission, body=Body(LINK, (b"another question",))))
        elif submission is not None and draw < 0.90:
            self.send(replace(submission, client=self.peer))
        elif submission is not None and submission.key:
            self.send(replace(submission, job=JobId(f"{job}-again"), client=self.peer))

    def leave(self) -> None:
        """Leave; its jobs go on."""
        self.send(PeerLeft(self.peer, "left"))
        self.is_up = False

    def reconnect(self) -> None:
        """Come back and repeat every unanswered request."""
        self.is_up = True
        for job in list(self.open):
            self._retry(job)

    # --- what the broker says -----------------------------------------------------------------

    def receive(self, effect: Any) -> None:
        """Handle one effect of the broker."""
        if not self.is_up:
            return
        if type(effect) is SendReply:
            self._reply(effect)
        elif effect.status is not None and effect.status.state in FINAL:
            self._ended(effect.job)

    def _reply(self, reply: SendReply) -> None:
        self.oracle.client_received(reply)
        if reply.kind is ReplyKind.FINAL:
            self._ended(reply.job)
        elif reply.kind is ReplyKind.INPUT_ASKED and not self.world.chance(0.3):
            answer = Body(LINK, (b"answer",))
            self.send(InputReceived(reply.job, self.peer, answer, reply.worker))

    def _ended(self, job: JobId) -> None:
        submission = self.open.pop(job, None)
        if submission is not None and job not in self.ended:
            self._use_result(submission)
        self.ended.add(job)

    def _use_result(self, submission: JobSubmitted) -> None:
        """Ask for the result of some jobs again, now and then; forget some results."""
        draw = crc32(f"use of {submission.job}".encode()) % 16
        if submission.terms.result_ttl is None and draw:
            return
        if draw < 2:
            self.world.after(1.0, self._send_if_up, _forget(submission))
        for wait in (0.3, 3.0, 9.0):
            self.world.after(wait, self._send_if_up, ResultRequested(submission.job, self.peer))
        self.world.after(6.0, self._send_if_up, submission)

    def _send_if_up(self, event: Event) -> None:
        if self.is_up:
            self.send(event)


def _forget(submission: JobSubmitted) -> ResultForgotten:
    return ResultForgotten(submission.job, submission.service, submission.principal)
