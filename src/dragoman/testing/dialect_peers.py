"""Simulated peers of a dialect: its real client and worker sides on a simulated connection."""

from collections.abc import Iterable
from contextlib import suppress

from dragoman.dialects.base import Frames
from dragoman.dialects.descriptor import Ids
from dragoman.dialects.peer_sides import (
    Assigned,
    Dismissed,
    Dispatched,
    Finished,
    Queued,
    SendNow,
    Stop,
    Submission,
    Unsupported,
)
from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId
from dragoman.testing.oracle import Oracle
from dragoman.testing.sim_connections import SimHub
from dragoman.testing.sim_dialects import SimDialect
from dragoman.testing.world import World

#: A client repeats an unanswered request after this many seconds.
REPEAT_AFTER = 4.0


class DialectWorker:
    """One worker of a dialect, offering one service."""

    def __init__(
        self, world: World, hub: SimHub, dialect: SimDialect, name: str, service: str, ids: Ids
    ) -> None:
        self.world, self.dialect, self.name, self.service, self.ids = (
            world, dialect, name, service, ids,
        )  # fmt: skip
        self.connection = dialect.connection(hub, dialect.worker_link, name, self.receive)
        self.is_up = False
        self.is_good = False
        self.life = 0

    def start(self) -> None:
        """Start without jobs, and join."""
        if self.is_up:
            return
        self.is_up = True
        self.life += 1
        self.side = self.dialect.worker(self.name, self.service, self.ids, lambda: self.world.now)
        self.running: dict[str, Assigned] = {}
        if hasattr(self.connection, "subscriptions"):
            self.connection.subscriptions = self.side.subscriptions  # type: ignore[attr-defined]
        self.connection.open()
        self.heard_at = self.world.now
        self._send(self.side.join())
        self._beat(self.life)

    def crash(self) -> None:
        """Stop at once and lose everything."""
        if self.is_up:
            self.is_up = False
            self.connection.close()

    def leave(self) -> None:
        """Leave in good order."""
        if self.is_up:
            self._send(self.side.leave())
            self.crash()

    def _send(self, messages: Iterable[Frames]) -> None:
        for frames in messages:
            self.connection.send(frames)

    def _beat(self, life: int) -> None:
        if life != self.life or not self.is_up:
            return
        hold = self.side.hold
        if hold is not None and self.world.now - self.heard_at > hold:
            self.heard_at = self.world.now
            self._send(self.side.join())
        else:
            self._send(self.side.beat())
        self.world.after(self.side.beat_every, self._beat, life)

    def receive(self, frames: list[bytes]) -> None:
        """Handle one message."""
        if not self.is_up:
            return
        self.heard_at = self.world.now
        for notice in self.side.receive(frames):
            if isinstance(notice, Assigned):
                self._work(notice)
            elif isinstance(notice, SendNow):
                self.connection.send(notice.frames)
            elif isinstance(notice, Dismissed):
                self._send(self.side.join())
            elif isinstance(notice, Stop) and notice.ticket in self.running:
                fault = Fault(FaultCode.CANCELLED, "stopped")
                del self.running[notice.ticket]
                self._send(self.side.finish(notice.ticket, Answer(fault=fault)))

    def _work(self, work: Assigned) -> None:
        self.running[work.ticket] = work
        self._send(self.side.take(work.ticket))
        random = self.world.random
        duration = 0.01 if self.is_good else random.choice((0.01, 0.2, 1.0, 4.0))
        self.world.after(duration, self._finish, self.life, work.ticket)

    def _finish(self, life: int, ticket: str) -> None:
        work = self.running.pop(ticket, None)
        if life != self.life or not self.is_up or work is None:
            return
        draw = 1.0 if self.is_good else self.world.random.random()
        try:
            if draw < 0.05:
                self._send(self.side.hand_back(ticket))
                return
            if draw < 0.10:
                self._send(self.side.progress(ticket, {"half": "way"}))
        except Unsupported:
            pass
        if draw > 0.9 and not self.is_good:
            answer = Answer(fault=Fault(FaultCode.TASK_FAILED, "it failed"), worker=self.name)
        else:
            answer = Answer(value=self._value(work), worker=self.name)
        self._send(self.side.finish(ticket, answer))

    def _value(self, work: Assigned) -> str:
        """Return what the task returns: an echo, so that a client knows its own answer."""
        call = work.call
        return f"{call.task} {call.args} {call.kwargs} {call.raw!r}"


class DialectClient:
    """One client of a dialect."""

    def __init__(
        self,
        world: World,
        hub: SimHub,
        oracle: Oracle,
        dialect: SimDialect,
        name: str,
        services: tuple[str, ...],
        ids: Ids,
    ) -> None:
        assert dialect.has_clients
        self.world, self.oracle, self.name, self.services = world, oracle, name, services
        self.dialect = dialect
        self.connection = dialect.connection(hub, dialect.client_link, name, self.receive)
        self.side = dialect.client(ids)
        #: Of these dialects, only NFP clients get an acknowledgement that means "on disk".
        self.is_strict = dialect.is_strict
        self.is_up = True
        self.open: dict[JobId, Submission] = {}
        self._asked = 0
        #: Timeouts that its jobs may have.
        self.timeouts: tuple[float, ...] = (5.0, 30.0)
        #: Whether its tasks echo their question.
        self.gets_echoes = True
        self.connection.open()
        self._send(self.side.hello())

    def _send(self, messages: Iterable[Frames]) -> None:
        for frames in messages:
            self.connection.send(frames)

    def submit_new(self) -> None:
        """Submit a new job."""
        if not self.is_up:
            return
        self._asked += 1
        job = JobId(f"{self.name}-{self._asked}-{self.world.random.randrange(1 << 30):x}")
        timeout = self.world.random.choice(self.timeouts)
        call = Call("echo", (f"question-{job}",), timeout=timeout)
        service = self.world.random.choice(self.services)
        self.open[job] = Submission(job, service, call)
        self._repeat(job)

    def _repeat(self, job: JobId) -> None:
        if self.is_up and job in self.open:
            self._send(self.side.submit(self.open[job]))
            self.world.after(REPEAT_AFTER, self._repeat, job)

    def interfere(self) -> None:
        """Cancel an open job, or ask for its result."""
        if not self.is_up or not self.open:
            return
        job = self.world.random.choice(list(self.open))
        with suppress(Unsupported):
            self._send(self.side.cancel(job) if self.world.chance(0.5) else self.side.ask(job))

    def disconnect(self) -> None:
        """Lose the connection without a message."""
        if self.is_up:
            self.is_up = False
            self.connection.close()

    def reconnect(self) -> None:
        """Connect again and repeat every unanswered request."""
        if not self.is_up:
            self.is_up = True
            self.connection.open()
            self._send(self.side.hello())
            for job in list(self.open):
                self._repeat(job)

    def receive(self, frames: list[bytes]) -> None:
        """Handle one message."""
        if not self.is_up:
            return
        for notice in self.side.receive(frames):
            if isinstance(notice, SendNow):
                self.connection.send(notice.frames)
            elif isinstance(notice, Queued | Dispatched) and self.is_strict:
                self.oracle.acknowledged.add(notice.job)
            elif isinstance(notice, Finished):
                self._finished(notice)

    def _finished(self, notice: Finished) -> None:
        submission = self.open.pop(notice.job, None)
        is_answer = notice.fault is None and bool(notice.answers)
        if submission is None or not is_answer or notice.answers[0].fault is not None:
            return
        question = submission.call.args[0]
        message = f"{notice.job}: {question} is answered by {notice.answers}"
        is_own = question in repr(notice.answers) or not self.gets_echoes
        self.oracle.require(is_own, message)
