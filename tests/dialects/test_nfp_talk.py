"""Our client, our broker and our worker in one process."""

from collections.abc import Iterator
from typing import Any

from tests.dialects.nfp_fabric import NfpFabric

from dragoman.dialects.base import Frames
from dragoman.dialects.nfp.client_side import NfpClientSide
from dragoman.dialects.nfp.worker_side import NfpWorkerSide
from dragoman.dialects.peer_sides import (
    Alive,
    Assigned,
    Chunk,
    ClientNotice,
    Dismissed,
    Dispatched,
    Finished,
    InputAsked,
    InputGiven,
    Progress,
    Published,
    SendNow,
    StatusNotice,
    Stop,
    Submission,
    WorkerNotice,
)
from dragoman.dialects.peer_sides import (
    ClientSide as AnyClientSide,
)
from dragoman.dialects.peer_sides import (
    WorkerSide as AnyWorkerSide,
)
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, WorkerName
from dragoman.model.record import Kind
from dragoman.model.target import ALL, Named

J1 = JobId("j1")
FAILED = Fault(FaultCode.TASK_FAILED, "no")
ADD = Submission(J1, "math", Call("add", (1,), {"y": b"\x00"}, timeout=20.0))


class Talk:
    """One client and some workers on a fabric; notices are kept until they are read."""

    def __init__(self, *workers: str, push: bool = True) -> None:
        self.fabric = NfpFabric()
        self.client: AnyClientSide = NfpClientSide(iter(f"id{n}" for n in range(99)).__next__)
        self.workers: dict[str, AnyWorkerSide] = {}
        self.notices: list[ClientNotice] = []
        self.worker_notices: dict[str, list[WorkerNotice]] = {}
        if push:
            self.tell(self.client.hello())
        for name in workers:
            self.add(name)

    def add(self, name: str) -> None:
        self.workers[name] = NfpWorkerSide(name, "math")
        self.worker_notices[name] = []
        self.report(name, self.workers[name].join())

    def tell(self, messages: list[Frames]) -> None:
        for frames in messages:
            self.fabric.say("c1", frames)
        self.settle()

    def report(self, name: str, messages: list[Frames]) -> None:
        for frames in messages:
            self.fabric.say(name, frames)
        self.settle()

    def settle(self) -> None:
        """Deliver messages until there are none."""
        while sum(self._deliver()):
            pass

    def _deliver(self) -> Iterator[bool]:
        for frames in self.fabric.frames("c1"):
            for notice in self.client.receive(frames):
                if isinstance(notice, SendNow):
                    self.fabric.say("c1", notice.frames)
                else:
                    self.notices.append(notice)
            yield True
        for name, side in self.workers.items():
            for frames in self.fabric.frames(name):
                for from_worker in side.receive(frames):
                    if isinstance(from_worker, SendNow):
                        self.fabric.say(name, from_worker.frames)
                    else:
                        self.worker_notices[name].append(from_worker)
                yield True

    def heard(self) -> list[ClientNotice]:
        found, self.notices = self.notices, []
        return found

    def work(self, name: str = "w1") -> list[WorkerNotice]:
        found, self.worker_notices[name] = self.worker_notices[name], []
        return [notice for notice in found if not isinstance(notice, Alive)]


def finished(value: Any, worker: str = "w1") -> Finished:
    return Finished(J1, (Answer(value, worker=worker),), state=JobState.SUCCEEDED)


def test_a_job_goes_there_and_back() -> None:
    talk = Talk("w1")
    talk.tell(talk.client.submit(ADD))
    (work,) = talk.work()
    assert work == Assigned("j1", J1, ADD.call, "math", "c1", 20.0)
    side = talk.workers["w1"]
    talk.report("w1", side.take("j1"))
    talk.report("w1", side.progress("j1", {"done": 0.5}))
    talk.report("w1", side.progress("j1", "half"))
    talk.report("w1", side.chunk("j1", b"\x00\x01"))
    talk.report("w1", side.finish("j1", Answer({"sum": b"\xff"})))
    assert talk.heard() == [
        Dispatched(J1, (WorkerName("w1"),)),
        Progress(J1, {"done": 0.5}, "w1"),
        Progress(J1, "half", "w1"),
        Chunk(J1, b"\x00\x01"),
        finished({"sum": b"\xff"}),
    ]
    assert Kind.LATE not in talk.fabric.kinds()


def test_a_client_without_open_still_gets_its_result() -> None:
    talk = Talk("w1", push=False)
    talk.tell(talk.client.submit(ADD))
    talk.report("w1", talk.workers["w1"].finish("j1", Answer(5)))
    assert talk.heard()[-1] == finished(5)


def test_a_failed_task_is_an_answer_with_a_fault() -> None:
    talk = Talk("w1")
    talk.tell(talk.client.submit(ADD))
    talk.report("w1", talk.workers["w1"].finish("j1", Answer(fault=FAILED)))
    (end,) = [n for n in talk.heard() if isinstance(n, Finished)]
    assert end.state is JobState.FAILED
    assert end.answers[0].fault == FAILED


def test_a_result_that_cannot_be_encoded_is_a_failure() -> None:
    talk = Talk("w1")
    talk.tell(talk.client.submit(ADD))
    talk.report("w1", talk.workers["w1"].finish("j1", Answer({1: 2})))
    (end,) = [n for n in talk.heard() if isinstance(n, Finished)]
    assert end.answers[0].fault is not None


def test_a_job_for_all_ends_when_all_have_answered() -> None:
    talk = Talk("w1", "w2")
    talk.tell(talk.client.submit(Submission(J1, "math", Call("add"), ALL)))
    talk.report("w1", talk.workers["w1"].finish("j1", Answer(1)))
    assert not any(isinstance(n, Finished) for n in talk.heard())
    talk.report("w2", talk.workers["w2"].finish("j1", Answer(2)))
    (end,) = talk.heard()
    assert isinstance(end, Finished)
    assert {a.worker: a.value for a in end.answers} == {"w1": 1, "w2": 2}


def test_a_question_is_asked_answered_and_polled() -> None:
    talk = Talk("w1")
    talk.tell(talk.client.submit(ADD))
    talk.work()
    side = talk.workers["w1"]
    talk.report("w1", side.ask_input("j1", "q1", {"sure": b"?"}))
    assert talk.heard()[-1] == InputAsked(J1, "q1", {"sure": b"?"}, "w1")
    talk.tell(talk.client.ask(J1))
    assert talk.heard()[-1] == StatusNotice(J1, "running", "WAITING_CLIENT_INPUT")
    talk.tell(talk.client.give_input(J1, "q1", b"yes", "w1"))
    assert talk.work() == [InputGiven("j1", "q1", b"yes")]


def test_a_cancel_reaches_the_worker_and_its_confirmation_the_client() -> None:
    talk = Talk("w1")
    talk.tell(talk.client.submit(ADD))
    talk.work()
    talk.tell(talk.client.cancel(J1))
    assert talk.work() == [Stop("j1")]
    talk.report("w1", talk.workers["w1"].finish("j1", Answer(fault=Fault(FaultCode.CANCELLED))))
    end, standing = talk.heard()[-2:]
    assert isinstance(end, Finished)
    assert (end.state, end.fault and end.fault.code) == (JobState.CANCELLED, FaultCode.CANCELLED)
    assert standing == StatusNotice(J1, "cancelled", "CANCELLED")


def test_a_cancel_of_an_unknown_job_is_unknown() -> None:
    talk = Talk()
    talk.tell(talk.client.cancel(JobId("nosuch")))
    (standing,) = talk.heard()
    assert isinstance(standing, StatusNotice)
    assert standing.state == "unknown"


def test_another_clients_job_can_be_asked_for() -> None:
    talk = Talk("w1")
    talk.tell(talk.client.submit(ADD))
    talk.report("w1", talk.workers["w1"].finish("j1", Answer(5)))
    talk.heard()
    talk.tell(talk.client.ask(J1))
    assert talk.heard() == [Dispatched(J1, (WorkerName("w1"),)), finished(5)]
    talk.tell(talk.client.ask(JobId("nosuch")))
    (end,) = talk.heard()
    assert isinstance(end, Finished)
    assert end.fault is not None
    assert end.fault.code is FaultCode.UNKNOWN_JOB


def test_a_job_without_a_worker_ends_with_the_exact_fault() -> None:
    talk = Talk("w1")
    order = Submission(J1, "math", Call("add"), Named((WorkerName("nobody"),)))
    talk.tell(talk.client.submit(order))
    talk.fabric.advance(601)
    talk.settle()
    (end,) = [n for n in talk.heard() if isinstance(n, Finished)]
    assert end.fault is not None
    assert end.fault.code is FaultCode.QUEUE_TIMEOUT


def test_a_returned_job_runs_on_another_worker() -> None:
    talk = Talk("w1")
    talk.tell(talk.client.submit(ADD))
    talk.add("w2")
    talk.report("w1", talk.workers["w1"].hand_back("j1"))
    assert len(talk.work("w2")) == 1
    talk.report("w2", talk.workers["w2"].finish("j1", Answer(5)))
    assert talk.heard()[-1] == finished(5, "w2")


def test_a_worker_that_leaves_gives_its_job_back() -> None:
    talk = Talk("w1")
    talk.tell(talk.client.submit(ADD))
    talk.add("w2")
    talk.report("w1", talk.workers["w1"].leave())
    assert len(talk.work("w2")) == 1


def test_priority_and_key_reach_the_broker() -> None:
    talk = Talk()
    talk.tell(talk.client.submit(Submission(J1, "math", Call("add"), priority=7, key="k1")))
    record = next(r for r in talk.fabric.records if r.kind == Kind.SUBMITTED)
    assert (record.priority, record.key) == (7, "k1")


def test_a_restarted_broker_has_its_workers_back_after_one_beat() -> None:
    talk = Talk("w1")
    talk.fabric = NfpFabric()
    talk.report("w1", talk.workers["w1"].beat())
    assert talk.work() == [Dismissed()]
    talk.report("w1", talk.workers["w1"].join())
    talk.tell(talk.client.hello())
    talk.tell(talk.client.submit(ADD))
    assert len(talk.work()) == 1


def test_a_lost_result_is_fetched_when_the_worker_rejoins() -> None:
    talk = Talk("w1")
    talk.tell(talk.client.submit(ADD))
    side = talk.workers["w1"]
    side.finish("j1", Answer(5))
    talk.report("w1", side.join())
    assert talk.heard()[-1] == finished(5)
    assert talk.fabric.kinds().count(Kind.DISPATCHED) == 1


def test_a_silent_workers_result_is_found_by_the_poll() -> None:
    talk = Talk("w1")
    talk.tell(talk.client.submit(ADD))
    side = talk.workers["w1"]
    side.finish("j1", Answer(5))
    talk.fabric.advance(9)
    talk.report("w1", side.beat())
    talk.fabric.advance(2)
    talk.settle()
    assert talk.heard()[-1] == finished(5)


def test_published_events_reach_their_subscriber() -> None:
    talk = Talk("w1")
    talk.tell(talk.client.subscribe(("math.*",), 3))
    (subscription,) = talk.fabric.subscriptions
    assert (subscription.topics, subscription.after) == (("math.*",), 3)
    assert subscription.wants("math.hot")
    assert not subscription.wants("other")
    talk.report("w1", talk.workers["w1"].publish("math.hot", {"t": b"\x01"}))
    record = next(r for r in talk.fabric.records if r.kind == Kind.PUBLISHED)
    body = Body("nfp", (b'{"t":{"$bytes":"AQ=="}}',))
    for send in talk.fabric.side.render_event(subscription, record, body):
        notices = talk.client.receive(send.frames)
    assert notices == [Published(record.seq, "math.hot", {"t": b"\x01"})]
