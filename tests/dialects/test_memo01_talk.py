"""Client, broker and worker ends wired together in memory, over requests as SP has them."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from dragoman.core.effects import Append, Effect, SendReply
from dragoman.core.events import Event, TimeAdvanced
from dragoman.core.recovery import fold, resume
from dragoman.dialects.base import Frames, Send, Wardrobe
from dragoman.dialects.memo01.broker_side import BrokerSide
from dragoman.dialects.memo01.client_side import ClientSide
from dragoman.dialects.memo01.dress import MemoDress
from dragoman.dialects.memo01.settings import Settings
from dragoman.dialects.memo01.wire import Job, encode
from dragoman.dialects.memo01.worker_side import WorkerSide
from dragoman.dialects.talk import Alive, Finished, Order, Reply, Word, Work
from dragoman.model.body import EMPTY, Body
from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId
from dragoman.model.record import Kind, Record

Requester = Callable[[Frames], None]


class House:
    """A broker with one memo01 link, and a network of requests around it."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings
        self.now = 0.0
        self.records: list[Record] = []
        self.bodies: dict[int, Body | None] = {}
        self._connections = count(1)
        self._requests = count(0x80000000)
        #: Address -> who waits for the answer; those who are not answered stay here.
        self.open: dict[bytes, Callable[[bytes], None]] = {}
        self.restart()

    def restart(self) -> None:
        """Put a new broker in the old one's place; it knows what is on record."""
        self.open.clear()
        numbers = count(len(self.records))
        wardrobe: Wardrobe = {"memo": MemoDress()}
        self.side = BrokerSide(lambda: f"{next(numbers):012x}", wardrobe, self.settings)
        self.side.restore(self.records, self.bodies.get, self.now)
        self.broker, first = resume(fold(self.records), self.bodies.get, self.now)
        self.carry_out(first)

    def connect(self) -> bytes:
        return next(self._connections).to_bytes(8)

    def request(
        self, connection: bytes, message: bytes, answered: Callable[[bytes], None]
    ) -> bytes:
        address = connection + next(self._requests).to_bytes(4)
        self.open[address] = answered
        self.take(self.side.receive(address, [message], self.now))
        return address

    def hang_up(self, connection: bytes) -> None:
        self.open = {a: f for a, f in self.open.items() if not a.startswith(connection)}
        self.take(self.side.receive(connection, [], self.now))

    def take(self, outcome: list[Event | Send]) -> None:
        for item in outcome:
            if isinstance(item, Send):
                self._send(item)
                continue
            self.carry_out(self.broker.handle(item, self.now))
        self.broker.validate()

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Append):
                self.records.append(effect.record)
                self.bodies[effect.record.seq] = effect.body
                continue
            if isinstance(effect, SendReply) and effect.seq:
                body = self.bodies[effect.seq] or EMPTY
                effect = replace(effect, body=body)
            for send in self.side.render(effect, self.now):
                self._send(send)

    def _send(self, send: Send) -> None:
        answered = self.open.pop(send.address, None)
        if answered is not None:
            answered(bytes(send.frames[0]))

    def wait(self, until: float) -> None:
        """Let time pass, deadline by deadline."""
        while True:
            due = [t for t in (self.broker.next_deadline(), self.side.next_deadline()) if t]
            at = min((t for t in due if t <= until), default=until)
            self.now = max(self.now, at)
            self.take([TimeAdvanced()])
            self.take(self.side.advance(self.now))
            if at >= until:
                return

    def kinds(self) -> list[str]:
        return [r.kind for r in self.records if r.kind != Kind.STARTED]


class Caller:
    """A client shell: its side, its tickets, what came back."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.connection = house.connect()
        self.side = ClientSide()
        self.finished: dict[str, Finished] = {}
        self.sent: dict[str, bytes] = {}

    def submit(self, job: str, call: Call, service: str = "math") -> bytes:
        ((ticket, message, _wait),) = self.side.submit(Order(JobId(job), service, call))
        self.sent[job] = message
        return self.house.request(self.connection, message, lambda a: self.hear([ticket, a]))

    def again(self, job: str, address: bytes) -> None:
        """Send an open request again, on a new connection, as NNG does."""
        self.connection = self.house.connect()
        moved = self.connection + address[8:]
        self.house.open[moved] = lambda answer: self.hear([job.encode(), answer])
        message = self.sent[job]
        self.house.take(self.house.side.receive(moved, [message], self.house.now))

    def hear(self, frames: Frames) -> None:
        for notice in self.side.receive(frames):
            assert isinstance(notice, Finished)
            self.finished[notice.job] = notice


class Hand:
    """A worker shell: its side, its open requests, the work it was given."""

    def __init__(self, house: House, services: tuple[str, ...] = ("math",), slots: int = 1) -> None:
        self.house = house
        self.connection = house.connect()
        self.side = WorkerSide(services, slots)
        self.work: deque[Work] = deque()
        self.beats = 0
        self.say(self.side.join())

    def say(self, messages: list[Frames]) -> None:
        for slot, message in messages:
            self.house.request(self.connection, message, lambda a, s=slot: self.hear([s, a]))  # type: ignore[misc]

    def hear(self, frames: Frames) -> None:
        self.take(self.side.receive(frames))

    def take(self, words: list[Word]) -> None:
        for word in words:
            if isinstance(word, Work):
                self.work.append(word)
            elif isinstance(word, Reply):
                self.say([word.frames])
            else:
                assert isinstance(word, Alive)
                self.beats += 1

    def finish(self, **answer: Any) -> Work:
        work = self.work.popleft()
        self.say(self.side.finish(work.ticket, Answer(**answer)))
        return work


@pytest.fixture
def house() -> House:
    return House()


def test_a_call_goes_to_a_worker_and_its_value_comes_back(house: House) -> None:
    worker, client = Hand(house), Caller(house)
    client.submit("j", Call("add", (2,), {"y": 3}, timeout=7.5))
    work = worker.work[0]
    assert (work.call, work.service, work.timeout) == (Call("add", (2,), {"y": 3}), "math", 7.5)
    worker.finish(value=5)
    assert client.finished["j"] == Finished(
        JobId("j"), (Answer(value=5),), None, JobState.SUCCEEDED
    )
    assert house.kinds() == ["joined", "submitted", "dispatched", "ended"]


def test_raw_bytes_pass_untouched(house: House) -> None:
    worker, client = Hand(house), Caller(house)
    client.submit("j", Call(raw=b"\x00\xff"))
    assert worker.work[0].call == Call(raw=b"\x00\xff")
    worker.finish(raw=b"\x01")
    assert client.finished["j"].answers == (Answer(raw=b"\x01"),)


def test_a_caller_without_the_tag_is_answered_without_it(house: House) -> None:
    worker, heard = Hand(house), list[bytes]()
    message = encode(Job(b"", "math", 1000, bytes.fromhex("a1647461736b63616464")))
    house.request(house.connect(), message, heard.append)
    assert worker.work[0].call == Call("add")
    worker.finish(value=5)
    assert heard == [bytes.fromhex("83666d656d6f3031034005")]


def test_a_job_waits_for_a_worker(house: House) -> None:
    client = Caller(house)
    client.submit("j", Call("add"))
    house.wait(9.0)
    worker = Hand(house)
    worker.finish(value=1)
    assert client.finished["j"].state is JobState.SUCCEEDED


def test_a_job_nobody_takes_is_dropped_in_silence_and_on_record(house: House) -> None:
    client = Caller(house)
    address = client.submit("j", Call("add"))
    house.wait(30.0)
    assert address in house.open
    assert house.records[-1].fault in (FaultCode.NO_WORKER, FaultCode.QUEUE_TIMEOUT)
    client.hear([b"j"])
    fault = client.finished["j"].fault
    assert fault is not None
    assert (fault.code, fault.is_definite) == (FaultCode.JOB_TIMEOUT, False)


def test_slots_run_jobs_side_by_side_on_one_connection(house: House) -> None:
    worker, client = Hand(house, slots=3), Caller(house)
    for n in range(5):
        client.submit(f"j{n}", Call("add", (n,)))
    assert len(worker.work) == 3
    while worker.work:
        worker.finish(value=worker.work[0].call.args[0])
    assert {j: f.answers[0].value for j, f in client.finished.items()} == {
        f"j{n}": n for n in range(5)
    }


def test_a_worker_with_several_services_gets_the_jobs_of_all(house: House) -> None:
    worker, client = Hand(house, ("long-name", "math", "b")), Caller(house)
    for service in ("b", "long-name", "math"):
        client.submit(service, Call("t"), service)
        assert worker.finish(value=1).service == service
    assert len(client.finished) == 3


def test_an_idle_worker_answers_heartbeats_for_as_long_as_it_is_asked(house: House) -> None:
    worker = Hand(house)
    house.wait(61.0)
    assert worker.beats == 6
    Caller(house).submit("j", Call("add"))
    assert len(worker.work) == 1


def test_a_long_job_is_not_disturbed(house: House) -> None:
    worker, client = Hand(house), Caller(house)
    Hand(house)
    client.submit("j", Call("add", timeout=3600.0))
    house.wait(3599.0)
    worker.finish(value=1)
    assert client.finished["j"].state is JobState.SUCCEEDED
    assert house.kinds().count("dispatched") == 1


def test_a_job_that_runs_too_long_is_dropped_and_its_worker_starts_anew(house: House) -> None:
    worker, client = Hand(house), Caller(house)
    client.submit("j", Call("add", timeout=1.0))
    house.wait(1.5)
    worker.finish(value=1)
    assert "late" in house.kinds()
    assert client.finished == {}
    client.submit("k", Call("add", timeout=1.0))
    worker.finish(value=2)
    assert client.finished["k"].answers == (Answer(value=2),)


def test_the_job_of_a_lost_worker_goes_to_another(house: House) -> None:
    first, client = Hand(house), Caller(house)
    client.submit("j", Call("add"))
    assert first.work
    second = Hand(house)
    house.hang_up(first.connection)
    house.wait(4.9)
    assert not second.work
    house.wait(5.1)
    second.finish(value=2)
    assert client.finished["j"].answers == (Answer(value=2),)


def test_a_job_that_loses_every_worker_is_dead_after_three(house: House) -> None:
    client = Caller(house)
    address = client.submit("j", Call("add"))
    for _ in range(3):
        worker = Hand(house)
        assert worker.work
        house.hang_up(worker.connection)
        house.wait(house.now + 6)
    assert house.records[-1].state == JobState.DEAD
    assert address in house.open


def test_a_worker_that_reconnects_in_mid_job_brings_its_result(house: House) -> None:
    worker, client = Hand(house), Caller(house)
    client.submit("j", Call("add"))
    house.hang_up(worker.connection)
    worker.connection = house.connect()
    worker.finish(value=1)
    assert client.finished["j"].answers == (Answer(value=1),)
    assert house.kinds().count("dispatched") == 1


def test_workers_come_back_after_a_restart_of_the_broker(house: House) -> None:
    worker, client = Hand(house, slots=2), Caller(house)
    house.restart()
    worker.connection = house.connect()
    worker.say(worker.side.join())
    client.submit("k", Call("add"))
    client.submit("l", Call("add"))
    assert len(worker.work) == 2


def test_a_job_that_runs_during_a_restart_is_not_run_twice(house: House) -> None:
    worker, client = Hand(house), Caller(house)
    address = client.submit("j", Call("add"))
    house.restart()
    other = Hand(house)
    client.again("j", address)
    worker.connection = house.connect()
    worker.finish(value=1)
    assert client.finished["j"].answers == (Answer(value=1),)
    assert not other.work
    assert house.kinds().count("dispatched") == 1
    # Its worker was told DISCONNECT, and is there again.
    client.submit("k", Call("add"))
    client.submit("l", Call("add"))
    assert len(worker.work) == len(other.work) == 1


def test_a_job_that_waits_during_a_restart_is_not_asked_for_twice(house: House) -> None:
    client = Caller(house)
    address = client.submit("j", Call("add", timeout=2.5))
    house.restart()
    client.again("j", address)
    worker = Hand(house)
    assert worker.work[0].timeout == 2.5
    worker.finish(value=1)
    assert client.finished["j"].answers == (Answer(value=1),)
    assert not worker.work


@pytest.mark.parametrize("answer", [Answer(value=1), Answer(raw=b"x"), Answer(raw=b"")])
def test_an_answer_lost_in_a_restart_is_given_again(house: House, answer: Answer) -> None:
    worker, client = Hand(house), Caller(house)
    address = client.submit("j", Call("add"))
    house.hang_up(client.connection)
    worker.finish(value=answer.value, raw=answer.raw)
    house.restart()
    client.again("j", address)
    assert client.finished["j"].answers == (answer,)


def test_a_job_that_failed_before_a_restart_is_tried_again(house: House) -> None:
    worker, client = Hand(house), Caller(house)
    address = client.submit("j", Call("add"))
    worker.finish(fault=Fault(FaultCode.TASK_FAILED))
    house.restart()
    worker = Hand(house)
    client.again("j", address)
    worker.finish(value=2)
    assert client.finished["j"].answers == (Answer(value=2),)


def test_a_task_that_fails_is_a_failed_job_and_silence_for_the_client(house: House) -> None:
    worker, client = Hand(house), Caller(house)
    client.submit("j", Call("div", (1, 0)))
    worker.finish(fault=Fault(FaultCode.TASK_FAILED, "ZeroDivisionError"))
    ended = house.records[-1]
    assert (ended.kind, ended.state, ended.detail) == (Kind.ENDED, "failed", "ZeroDivisionError")
    assert client.finished == {}
    client.submit("k", Call("add"))
    assert worker.work


def test_a_job_handed_back_goes_to_another_worker(house: House) -> None:
    first, client = Hand(house), Caller(house)
    client.submit("j", Call("add"))
    second = Hand(house)
    first.say(first.side.hand_back(first.work.popleft().ticket))
    second.finish(value=2)
    assert client.finished["j"].answers == (Answer(value=2),)


def test_a_worker_that_leaves_gives_its_last_result_and_gets_no_more(house: House) -> None:
    worker, client = Hand(house), Caller(house)
    client.submit("j", Call("add"))
    assert worker.side.leave() == []
    worker.finish(value=1)
    assert client.finished["j"].answers == (Answer(value=1),)
    client.submit("k", Call("add"))
    assert not worker.work
    assert "left" in house.kinds()


def test_a_job_that_crosses_with_a_leave_is_handed_back(house: House) -> None:
    leaving, client = Hand(house), Caller(house)
    leaving.side.leave()
    client.submit("j", Call("add"))
    assert not leaving.work
    other = Hand(house)
    other.finish(value=1)
    assert client.finished["j"].answers == (Answer(value=1),)


def test_a_memoised_service_answers_the_same_question_from_memory() -> None:
    house = House(Settings(memoized=frozenset({"math"})))
    worker, client = Hand(house), Caller(house)
    client.submit("j", Call("add", (1,)))
    worker.finish(value=2)
    client.submit("k", Call("add", (1,)))
    assert not worker.work
    assert client.finished["k"].answers == (Answer(value=2),)
    client.submit("l", Call("add", (2,)))
    assert worker.work


def test_a_resent_request_runs_once_and_each_connection_is_answered(house: House) -> None:
    worker, client = Hand(house), Caller(house)
    address = client.submit("j", Call("add"))
    ((_, message, _wait),) = ClientSide().submit(Order(JobId("j"), "math", Call("add")))
    heard: list[bytes] = []
    other = house.connect() + address[8:]
    house.open[other] = heard.append
    for _ in range(3):
        house.take(house.side.receive(other, [message], house.now))
        house.take(house.side.receive(address, [message], house.now))
    worker.finish(value=1)
    assert client.finished["j"].answers == (Answer(value=1),)
    assert len(heard) == 1
    assert house.kinds().count("dispatched") == 1


def test_a_resend_after_the_answer_is_answered_from_the_broker(house: House) -> None:
    worker, client = Hand(house), Caller(house)
    address = client.submit("j", Call("add"))
    house.hang_up(client.connection)
    worker.finish(value=1)
    client.again("j", address)
    assert client.finished["j"].answers == (Answer(value=1),)
    assert not worker.work
