"""Workers of an NFP link: registration, results that must be fetched, lost jobs."""

import pytest
from tests.dialects.nfp_fabric import (
    NfpFabric,
    asked,
    body_of,
    event,
    get,
    post,
    ready,
    response,
    result,
    told,
)

from dragoman.core.effects import SendInput, SendPoll, SendWork
from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.nfp import wire
from dragoman.dialects.nfp.body_codec import NfpBodyCodec
from dragoman.dialects.nfp.broker_side import NfpBrokerSide
from dragoman.dialects.nfp.settings import RESERVED, NfpSettings
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.model.record import Kind

KEEPALIVE = wire.KeepAlive(wire.WORKER, b"math")
DISCONNECT = wire.NfpDisconnect(wire.WORKER, b"math")
DISCONNECTED = [wire.NfpDisconnect(wire.BROKER, b"math")]


@pytest.fixture
def fabric() -> NfpFabric:
    fabric = NfpFabric()
    fabric.say("w1", ready())
    return fabric


def test_an_unknown_workers_keepalive_is_answered_with_a_correct_disconnect() -> None:
    fabric = NfpFabric()
    fabric.say("w1", KEEPALIVE)
    assert fabric.heard("w1") == DISCONNECTED
    assert fabric.records == []


def test_an_unknown_workers_report_is_answered_with_disconnect_and_noted() -> None:
    fabric = NfpFabric()
    fabric.say("w1", response("200", result()))
    assert [type(m) for m in fabric.heard("w1")] == [wire.NfpDisconnect]
    assert fabric.notes(Kind.REJECTED) == ["RESPONSE from a worker that is not registered"]


def test_the_late_disconnect_of_an_old_socket_creates_no_worker() -> None:
    fabric = NfpFabric()
    stray = bytes.fromhex("006b8b4567")
    fabric.say(stray, DISCONNECT)
    assert fabric.heard(stray) == []
    assert len(fabric.notes(Kind.REJECTED)) == 1
    fabric.say("w1", ready())
    assert fabric.kinds().count(Kind.JOINED) == 1


@pytest.mark.parametrize("address", [b"\xff", b"0xab", b"w" * 300])
def test_an_identity_that_is_no_printable_name_cannot_be_a_worker(address: bytes) -> None:
    fabric = NfpFabric()
    fabric.say(address, ready())
    assert fabric.heard(address) == DISCONNECTED
    assert Kind.JOINED not in fabric.kinds()
    assert Kind.REJECTED in fabric.kinds()


@pytest.mark.parametrize("service", [*sorted(RESERVED), "\n", "x" * 300])
def test_a_service_name_that_means_something_else_is_refused(service: str) -> None:
    fabric = NfpFabric()
    fabric.say("w1", ready(service))
    assert [type(m) for m in fabric.heard("w1")] == [wire.NfpDisconnect]
    assert Kind.JOINED not in fabric.kinds()


def test_ready_again_keeps_the_jobs_and_asks_for_them(fabric: NfpFabric) -> None:
    fabric.say("c1", post())
    fabric.heard("w1")
    fabric.say("w1", ready())
    assert Kind.RESYNCED in fabric.kinds()
    assert asked(fabric.heard("w1")) == [wire.GET]


def test_a_worker_that_reconnects_finishes_what_it_ran(fabric: NfpFabric) -> None:
    fabric.say("c1", post())
    fabric.say("w1", response("201"), DISCONNECT)
    fabric.heard("w1")
    fabric.advance(5)
    fabric.say("w1", ready())
    assert asked(fabric.heard("w1")) == [wire.GET]
    fabric.say("w1", response("200", result()))
    assert told(fabric.heard("c1"))[-1] == ("RESPONSE", "200")
    assert Kind.REQUEUED not in fabric.kinds()


def test_a_worker_that_stops_cleanly_gives_its_job_to_another_at_once(fabric: NfpFabric) -> None:
    fabric.say("c1", post())
    fabric.say("w2", ready())
    fabric.say("w1", wire.NfpDisconnect(wire.WORKER, b"math", b'{"clean":true}'))
    assert asked(fabric.heard("w2")) == [wire.POST]


def test_a_worker_gets_heartbeats_and_a_silent_one_a_disconnect(fabric: NfpFabric) -> None:
    fabric.advance(10)
    beats = fabric.heard("w1")
    assert beats.count(wire.KeepAlive(wire.BROKER, b"math")) == 4
    fabric.advance(10)
    assert fabric.heard("w1")[-1] == DISCONNECTED[0]
    assert fabric.side.workers.workers == {}


def test_any_command_counts_as_a_beat(fabric: NfpFabric) -> None:
    fabric.say("c1", post())
    for _ in range(5):
        fabric.advance(8)
        fabric.say("w1", event("progress"))
    assert "w1" in {w.name for w in fabric.side.workers.workers.values()}


def test_what_a_worker_declares_is_what_it_joins_with() -> None:
    fabric = NfpFabric()
    body = b'{"can_cancel":true,"credit":2,"labels":{"zone":"eu"},"resources":["r1"],"holds":[]}'
    fabric.say("w1", wire.Open(wire.WORKER, body), ready())
    worker = fabric.broker.state.registry.workers[PeerId("nfp/w1")]
    assert (worker.credit, worker.can_cancel, worker.labels) == (2, True, {"zone": "eu"})
    assert Kind.OWNS in fabric.kinds()


def test_a_worker_holds_no_more_jobs_than_its_credit() -> None:
    settings = NfpSettings(worker_credit=3, first_credit=3)
    fabric = NfpFabric(NfpBrokerSide("nfp", settings=settings))
    fabric.say("w1", ready())
    for number in range(10):
        fabric.say("c1", post(f"j{number}"))
    assert len(asked(fabric.heard("w1"))) == 3
    fabric.say("w1", response("200", result(), "j0"))
    assert len(asked(fabric.heard("w1"))) == 1


def test_a_silent_job_is_polled_every_ten_seconds(
    fabric: NfpFabric,
) -> None:
    fabric.say("c1", post(body=b'{"task":"slow","timeout":600}'))
    fabric.say("w1", response("201"))
    fabric.heard("w1")
    for _ in range(3):
        fabric.advance(9)
        fabric.say("w1", KEEPALIVE)
        assert asked(fabric.heard("w1")) == []
        fabric.advance(1.5)
        assert asked(fabric.heard("w1")) == [wire.GET]
        fabric.say("w1", response("300", {"status": "STARTED"}))
    fabric.advance(9)
    fabric.say("w1", KEEPALIVE)
    fabric.advance(2)
    fabric.say("w1", response("200", result()))
    assert told(fabric.heard("c1"))[-1] == ("RESPONSE", "200")


def test_a_silent_worker_is_not_polled_repeatedly(fabric: NfpFabric) -> None:
    fabric.say("c1", post())
    fabric.heard("w1")
    fabric.advance(14)
    assert asked(fabric.heard("w1")) == [wire.GET]


def test_a_job_that_its_worker_does_not_know_goes_to_another(fabric: NfpFabric) -> None:
    fabric.say("c1", post())
    fabric.say("w1", response("201"))
    fabric.say("w2", ready())
    fabric.say("w1", response("404", {"status": "JOB NOT FOUND"}))
    assert asked(fabric.heard("w2")) == [wire.POST]


def test_a_first_404_before_the_job_was_stored_is_ignored(fabric: NfpFabric) -> None:
    fabric.say("w2", ready())
    fabric.say("c1", post(target="w1"))
    fabric.heard("w1")
    fabric.say("w1", response("404", {"status": "JOB NOT FOUND"}))
    assert Kind.REQUEUED not in fabric.kinds()
    fabric.say("w1", response("404", {"status": "JOB NOT FOUND"}))
    assert Kind.REQUEUED in fabric.kinds()


def test_a_404_for_a_job_it_was_not_given_is_noted(fabric: NfpFabric) -> None:
    fabric.say("w1", response("404", {"status": "JOB NOT FOUND"}))
    assert "which was not assigned to it" in fabric.notes(Kind.REJECTED)[0]


def test_a_returned_job_goes_to_another_worker_at_once(fabric: NfpFabric) -> None:
    fabric.say("c1", post())
    fabric.say("w2", ready())
    fabric.say("w1", response("404", {"status": "HANDED_BACK"}))
    assert asked(fabric.heard("w2")) == [wire.POST]


def test_a_failed_task_is_a_result_and_a_fault_on_record(fabric: NfpFabric) -> None:
    failed = {"w1": {"result": None, "failed": True, "errors": ["no route"]}}
    fabric.say("c1", post())
    fabric.say("w1", response("200", failed))
    assert body_of(fabric.heard("c1")[-1]) == failed
    (ended,) = [r for r in fabric.records if r.kind == Kind.ENDED]
    assert (ended.fault, ended.detail) == ("task_failed", "no route")


def test_an_error_status_of_a_worker_ends_the_job(fabric: NfpFabric) -> None:
    fabric.say("c1", post())
    fabric.say("w1", response("500", {"status": "UNKNOWN STATUS"}))
    (ended,) = [r for r in fabric.records if r.kind == Kind.ENDED]
    assert (ended.fault, ended.detail) == ("task_failed", "UNKNOWN STATUS")


def test_an_unknown_status_is_malformed(fabric: NfpFabric) -> None:
    with pytest.raises(MalformedMessage, match="status"):
        fabric.say("w1", response("999"))


@pytest.mark.parametrize("uuid", [b"", b"\xff", b"a\nb", b"x" * 300])
def test_a_report_on_a_job_id_that_is_none_is_malformed(fabric: NfpFabric, uuid: bytes) -> None:
    with pytest.raises(MalformedMessage, match="job id"):
        fabric.say("w1", wire.NfpReport(wire.RESPONSE, b"c1", uuid, b"200", b"{}"))


def test_an_announcement_after_the_poll_fetched_the_result_is_dropped(fabric: NfpFabric) -> None:
    fabric.say("c1", post())
    fabric.say("w1", response("201"))
    fabric.advance(9)
    fabric.say("w1", KEEPALIVE)
    fabric.advance(2)
    fabric.heard("w1")
    fabric.say("w1", response("200", result()), event("result_ready"))
    assert asked(fabric.heard("w1")) == []
    assert Kind.LATE not in fabric.kinds()


def test_an_announcement_of_an_untracked_job_is_followed(fabric: NfpFabric) -> None:
    fabric.say("w1", event("result_ready", "old"), event("result_ready", "old"))
    assert asked(fabric.heard("w1")) == [wire.GET]
    fabric.say("w1", response("200", result(), "old"))
    assert Kind.LATE in fabric.kinds()
    assert len(fabric.side.workers.assignments) == 0


def test_a_worker_publishes_with_an_event_for_no_client(fabric: NfpFabric) -> None:
    fabric.say("w1", wire.NfpReport(wire.EVENT, b"", b"math.hot", b"200", b'{"t":1}'))
    (record,) = [r for r in fabric.records if r.kind == Kind.PUBLISHED]
    assert (record.detail, record.service, record.peer) == ("math.hot", "math", "nfp/w1")


def test_input_and_stream_go_through_untouched(fabric: NfpFabric) -> None:
    fabric.say("c1", post("j1", target="any", body=b'{"task":"fetch_file"}'))
    fabric.say("w1", wire.NfpReport(wire.STREAM, b"c1", b"j1", b"200", b"\x00\xff"))
    stream = fabric.heard("c1")[-1]
    assert isinstance(stream, wire.NfpReply)
    assert (stream.command, stream.body) == (wire.STREAM, b"\x00\xff")
    fabric.heard("w1")
    fabric.say("c1", wire.NfpRequest(wire.PUT, b"math", b"any", b"j1", b'{"offset":8}'))
    (put,) = fabric.heard("w1")
    assert put == wire.NfpTask(wire.PUT, b"c1", b"j1", b'{"offset":8}')
    assert fabric.heard("c1") == []


def test_workers_see_a_printable_alias_of_a_nameless_client(fabric: NfpFabric) -> None:
    fabric.say(b"\x00k\x8bEg", post())
    (task,) = fabric.heard("w1")
    assert isinstance(task, wire.NfpTask)
    assert task.client == b"0x006b8b4567"
    fabric.say("w1", response("200", result()))
    assert told(fabric.heard(b"\x00k\x8bEg"))[-1] == ("RESPONSE", "200")


def test_the_attempt_travels_only_to_workers_that_asked_for_it(fabric: NfpFabric) -> None:
    fabric.say("w2", wire.Open(wire.WORKER, b'{"attempts":true}'), ready("other"))
    fabric.heard("w2")
    fabric.say("c1", post("j1"), post("j2", service="other"))
    assert [m.more for m in fabric.heard("w1") if isinstance(m, wire.NfpTask)] == [()]
    assert [m.more for m in fabric.heard("w2") if isinstance(m, wire.NfpTask)] == [(b"1",)]
    late = wire.NfpReport(wire.RESPONSE, b"c1", b"j2", b"200", b"{}", more=(b"7",))
    fabric.say("w2", late)
    assert Kind.LATE in fabric.kinds()


@pytest.mark.parametrize("digits", [20, 5000])
def test_an_attempt_that_is_no_number_of_ours_is_none(fabric: NfpFabric, digits: int) -> None:
    fabric.say("c1", post("j1"))
    report = wire.NfpReport(wire.RESPONSE, b"c1", b"j1", b"200", b"{}", more=(b"9" * digits,))
    fabric.say("w1", report)
    assert max(record.attempt for record in fabric.records) <= 1


# --- other dialects -----------------------------------------------------------------------------


class Other(NfpBodyCodec):
    """A dialect with NFP bodies that can refuse a conversion."""

    name = "other"

    def read_call(self, body: Body) -> Call:
        if body.parts[0] == b"?":
            raise Unmappable("raw bytes only")
        return Call("add", (1, b"x"))

    def read_answer(self, body: Body) -> Answer:
        return Answer(body.parts[0].decode())


def work(body: Body, run_until: float | None = None) -> SendWork:
    client = PeerId("zss/z1")
    return SendWork(
        PeerId("nfp/w1"), JobId("j1"), 1, ServiceName("math"), client, body, run_until=run_until
    )


def test_work_of_another_dialect_is_converted_with_a_time_out_and_the_clients_id() -> None:
    side = NfpBrokerSide("nfp", codecs={"nfp": NfpBodyCodec(), "other": Other()})
    (send,) = side.render(work(Body("other", (b"!",)), run_until=130.0), 100.0)
    task = wire.decode(send.frames)
    assert isinstance(task, wire.NfpTask)
    assert task.client == b"zss/z1"
    assert body_of(task) == {
        "task": "add",
        "kwargs": {},
        "args": [1, {"$bytes": "eA=="}],
        "timeout": 30.0,
    }


def test_work_that_cannot_be_converted_is_not_tracked() -> None:
    side = NfpBrokerSide("nfp", codecs={"nfp": NfpBodyCodec(), "other": Other()})
    with pytest.raises(Unmappable):
        side.render(work(Body("other", (b"?",))), 100.0)
    assert side.next_deadline() is None


def test_input_of_another_dialect_answers_the_open_question(fabric: NfpFabric) -> None:
    fabric.side = NfpBrokerSide("nfp", codecs={"nfp": NfpBodyCodec(), "other": Other()})
    fabric.say("w1", ready())
    fabric.say("c1", post())
    fabric.say("w1", event("input_request", extras={"input_request": {"id": "q7"}}))
    given = SendInput(PeerId("nfp/w1"), JobId("j1"), PeerId("o/1"), Body("other", (b"yes",)))
    (send,) = fabric.side.render(given, fabric.now)
    assert body_of(wire.decode(send.frames)) == {
        "input_id": "q7",
        "value": "yes",
        "cancel": False,
        "metadata": {},
    }


def test_after_a_restart_the_first_404_is_final() -> None:
    fabric = NfpFabric()
    fabric.say("w1", ready())
    poll = SendPoll(PeerId("nfp/w1"), JobId("j1"), 1, PeerId("nfp/c1"))
    (send,) = fabric.side.render(poll, fabric.now)
    assert asked([wire.decode(send.frames)]) == [wire.GET]
    fabric.say("w1", response("404", {"status": "JOB NOT FOUND"}))
    assert len(fabric.side.workers.assignments) == 0


def test_a_job_of_a_departed_worker_is_not_tracked_for_ever(fabric: NfpFabric) -> None:
    fabric.say("c1", post(), get())
    fabric.say("w1", DISCONNECT)
    fabric.advance(11)
    assert len(fabric.side.workers.assignments) == 0
