"""Seeded faults for memo01: cut and half-open connections, resends, restarts, lost workers.

Requesters behave like NNG's: they resend an open request with the same request id, on a timer and
on every new connection. Answers on a cut connection are lost.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

import pytest
from tests.dialects.memo01_fabric import MemoFabric

from dragoman.dialects.base import Frames
from dragoman.dialects.memo01.client_side import MemoClientSide
from dragoman.dialects.memo01.worker_side import MemoWorkerSide
from dragoman.dialects.peer_sides import Assigned, Finished, SendNow, Submission
from dragoman.model.content import Answer, Call
from dragoman.model.names import JobId
from dragoman.model.record import Kind

pytestmark = pytest.mark.sim
STEPS = 250


class Requester:
    """An NNG requester: a request stays open until it is answered."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.connection = world.fabric.connect()
        self.open: dict[bytes, tuple[bytes, Callable[[bytes], None]]] = {}
        #: Answers in transit.
        self.arriving: deque[tuple[bytes, bytes]] = deque()
        self._ids = count(world.random.randrange(2**31))

    def request(self, message: bytes, answered: Callable[[bytes], None]) -> None:
        name = (next(self._ids) % 2**31 + 2**31).to_bytes(4)
        self.open[name] = (message, answered)
        self._send(name)

    def _send(self, name: bytes) -> None:
        fabric, address = self.world.fabric, self.connection + name
        fabric.open[address] = lambda answer: self.arriving.append((name, answer))
        fabric.take(fabric.side.receive(address, [self.open[name][0]], fabric.now))

    def hear(self) -> None:
        """Receive the answers that have arrived; ignore one for no open request."""
        while self.arriving:
            name, answer = self.arriving.popleft()
            found = self.open.pop(name, None)
            if found is not None:
                found[1](answer)

    def resend(self) -> None:
        for name in list(self.open):
            self._send(name)

    def reconnect(self, is_noticed_late: bool = False) -> None:
        old, self.connection = self.connection, self.world.fabric.connect()
        fabric = self.world.fabric
        self.arriving.clear()
        # Messages on the old connection are lost.
        fabric.open = {a: f for a, f in fabric.open.items() if not a.startswith(old)}
        if not is_noticed_late:
            fabric.disconnect(old)
        self.resend()
        if is_noticed_late:
            fabric.disconnect(old)


class Client:
    """Submits requests and compares the answers with them."""

    def __init__(self, world: "World") -> None:
        self.requester = Requester(world)
        self.side = MemoClientSide()
        self.asked: dict[str, int] = {}
        self.answers: dict[str, int] = {}

    def ask(self, job: str, number: int, timeout: float) -> None:
        self.asked[job] = number
        call = Call("double", (number,), timeout=timeout)
        ((ticket, message, _wait),) = self.side.submit(Submission(JobId(job), "svc", call))
        self.requester.request(message, lambda answer: self.hear([ticket, answer]))

    def hear(self, frames: list[bytes]) -> None:
        for notice in self.side.receive(frames):
            assert isinstance(notice, Finished)
            self.answers[notice.job] = notice.answers[0].value


class Worker:
    """Doubles numbers."""

    def __init__(self, world: "World") -> None:
        self.requester = Requester(world)
        self.side = MemoWorkerSide(("svc",), world.random.randint(1, 3))
        self.work: list[Assigned] = []
        self.say(self.side.join())

    def say(self, messages: Sequence[Frames]) -> None:
        for slot, message in messages:
            self.requester.request(message, partial(self.hear, slot))

    def hear(self, slot: bytes, answer: bytes) -> None:
        for word in self.side.receive([slot, answer]):
            if isinstance(word, Assigned):
                self.work.append(word)
            elif isinstance(word, SendNow):
                self.say([word.frames])

    def finish(self, which: int) -> None:
        work = self.work.pop(which)
        answer = Answer(value=work.call.args[0] * 2)
        self.say(self.side.finish(work.ticket, answer))


class World:
    """A broker, its peers, and a source of faults."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.fabric = MemoFabric()
        self.numbers = count(1)
        self.clients = [Client(self) for _ in range(3)]
        self.workers = [Worker(self) for _ in range(3)]

    def step(self) -> None:
        kind = self.random.choices(
            [*ORDINARY, *TROUBLE],
            [30, 40, 40, 20, 10, 4, 1, 1],
        )[0]
        kind(self)

    def hear(self) -> None:
        self.random.choice(self.everybody()).hear()

    def ask(self) -> None:
        number = next(self.numbers)
        timeout = self.random.choice([0.5, 5.0, 60.0])
        self.random.choice(self.clients).ask(f"j{number}", number, timeout)

    def finish(self) -> None:
        busy = [w for w in self.workers if w.work]
        if busy:
            worker = self.random.choice(busy)
            worker.finish(self.random.randrange(len(worker.work)))

    def wait(self) -> None:
        self.fabric.wait(self.fabric.now + self.random.expovariate(1.0))

    def everybody(self) -> list[Requester]:
        return [*(c.requester for c in self.clients), *(w.requester for w in self.workers)]

    def resend(self) -> None:
        self.random.choice(self.everybody()).resend()

    def cut(self) -> None:
        late = self.random.random() < 0.3
        self.random.choice(self.everybody()).reconnect(late)

    def lose(self) -> None:
        """Kill a worker with all its work; another takes its place."""
        lost = self.workers.pop(self.random.randrange(len(self.workers)))
        self.fabric.disconnect(lost.requester.connection)
        self.workers.append(Worker(self))

    def restart(self) -> None:
        self.fabric.restart()
        for requester in self.everybody():
            requester.connection = self.fabric.connect()
            requester.arriving.clear()
        for requester in self.everybody():
            requester.resend()

    def settle(self) -> None:
        """Let everything finish without further faults."""
        for _ in range(100):
            self.fabric.wait(self.fabric.now + 1.0)
            for requester in self.everybody():
                requester.hear()
            for worker in self.workers:
                while worker.work:
                    worker.finish(0)


ORDINARY = (World.ask, World.hear, World.finish, World.wait)
TROUBLE = (World.resend, World.cut, World.lose, World.restart)


@pytest.mark.parametrize("seed", range(40))
def test_answers_are_right_and_nothing_is_asked_twice_or_lost_in_silence(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    world.settle()

    records = world.fabric.records
    submitted = {r.job: r for r in records if r.kind == Kind.SUBMITTED}
    ended = {r.job: r for r in records if r.kind == Kind.ENDED}
    assert submitted.keys() == ended.keys(), "every job ends"
    requests: dict[str, list[str]] = {}
    for job in submitted:
        requests.setdefault(job.rpartition("-")[0], []).append(job)
    for jobs in requests.values():
        states = [ended[job].state for job in jobs]
        assert "succeeded" not in states[:-1], "a request that was served is never a new job"

    answers = {j: a for c in world.clients for j, a in c.answers.items()}
    asked = {j: n for c in world.clients for j, n in c.asked.items()}
    assert all(answers[job] == asked[job] * 2 for job in answers), "everybody gets their own answer"
    served = sum(ended[jobs[-1]].state == "succeeded" for jobs in requests.values())
    assert len(requests) == len(asked)
    assert served == len(answers), "every success reaches whoever asked"
    for record in records:
        if record.kind == Kind.DISPATCHED and record.attempt > 1:
            lost = [r for r in records if r.job == record.job and r.kind == Kind.REQUEUED]
            assert len(lost) >= record.attempt - 1, "a job runs again only after a lost worker"
