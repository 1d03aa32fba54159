"""The broker's side of the HTTP link: effects pass as objects, bodies in HTTP form."""

import json
from typing import Any

import pytest

from dragoman.core.effects import (
    Dismiss,
    Effect,
    JobStatus,
    PartStatus,
    RequestKind,
    SendBeat,
    SendCancel,
    SendInput,
    SendReply,
    SendStatus,
    SendWork,
)
from dragoman.core.events import JobCancelled, ReplyKind
from dragoman.dialects.base import Send, Subscribed
from dragoman.dialects.http.body_codec import HttpBodyCodec
from dragoman.dialects.http.broker_side import HttpBrokerSide, StreamedRecord
from dragoman.dialects.json_values import to_jsonable
from dragoman.dialects.local.body_codec import LocalBodyCodec
from dragoman.model.body import EMPTY, Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.model.record import Kind, Record

CODEC, OTHER = HttpBodyCodec(), LocalBodyCodec()
CLIENT, WORKER = PeerId("http/alice"), PeerId("http/worker:0a")
JOB, SERVICE = JobId("j"), ServiceName("s")
UNKNOWN = Body("martian", (b"?",))


def side() -> HttpBrokerSide:
    return HttpBrokerSide(codecs={"http": CODEC, OTHER.name: OTHER})


def rendered(effect: Effect) -> tuple[bytes, Any]:
    """Return the address and the object of the one message for an effect."""
    (send,) = side().render(effect, 7.0)
    objects: Any = send.frames
    item, now = objects
    assert now == 7.0
    return send.address, item


def reply(body: Body, fault: Fault | None = None) -> SendReply:
    return SendReply(CLIENT, JOB, ReplyKind.FINAL, SERVICE, WorkerName("w"), body, fault)


def test_the_applications_events_pass_as_they_are() -> None:
    items = [JobCancelled(JOB, CLIENT), Send(b"alice", (), is_strict=True)]
    assert side().receive(b"alice", items, 1.0) is items


def test_a_reply_of_an_http_worker_passes_as_it_is() -> None:
    effect = reply(CODEC.write_answer(Answer(5)))
    assert rendered(effect) == (b"alice", effect)


def test_bodies_of_other_dialects_become_http_bodies() -> None:
    result = OTHER.write_answer(Answer({"n": 1}))
    assert CODEC.read_answer(rendered(reply(result))[1].body).value == {"n": 1}
    call = OTHER.write_call(Call("t", (1,)))
    work = SendWork(WORKER, JOB, 1, SERVICE, CLIENT, call)
    address, item = rendered(work)
    assert (address, CODEC.read_call(item.body).args) == (b"worker:0a", (1,))
    given = rendered(SendInput(WORKER, JOB, CLIENT, result))[1]
    assert CODEC.read_answer(given.body).value == {"n": 1}


def test_a_result_without_a_json_form_is_a_fault() -> None:
    item = rendered(reply(UNKNOWN))[1]
    assert (item.fault.code, item.body) == (FaultCode.UNMAPPABLE, EMPTY)
    failed = Fault(FaultCode.TASK_FAILED, "no")
    assert rendered(reply(UNKNOWN, failed))[1].fault == failed


def test_a_call_without_a_json_form_is_not_sent() -> None:
    with pytest.raises(Unmappable):
        side().render(SendWork(WORKER, JOB, 1, SERVICE, CLIENT, UNKNOWN), 1.0)


def test_every_part_of_a_status_has_its_result_in_http_form() -> None:
    parts = (
        PartStatus(WorkerName("a"), JobState.SUCCEEDED, 1, body=OTHER.write_answer(Answer(1))),
        PartStatus(WorkerName("b"), JobState.SUCCEEDED, 1, body=UNKNOWN),
        PartStatus(WorkerName("c"), JobState.RUNNING, 1),
    )
    status = JobStatus(JOB, JobState.RUNNING, SERVICE, CLIENT, parts)
    item = rendered(SendStatus(CLIENT, JOB, RequestKind.RESULT, status))[1]
    one, two, three = item.status.parts
    assert CODEC.read_answer(one.body).value == 1
    assert (two.fault.code, two.body) == (FaultCode.UNMAPPABLE, EMPTY)
    assert (three.fault, three.body) == (None, EMPTY)
    unknown = SendStatus(CLIENT, JOB, RequestKind.RESULT, None)
    assert rendered(unknown) == (b"alice", unknown)


def test_effects_without_a_body_pass_as_they_are() -> None:
    for effect in (SendCancel(WORKER, JOB, 1, CLIENT), Dismiss(WORKER, "lost")):
        assert rendered(effect) == (b"worker:0a", effect)


def test_heartbeats_are_not_sent_and_clients_are_not_dismissed() -> None:
    assert side().render(SendBeat(WORKER), 1.0) == []
    assert side().render(Dismiss(CLIENT, "gone"), 1.0) == []


def test_it_has_no_timers() -> None:
    assert (side().advance(1.0), side().next_deadline()) == ([], None)


def streamed(record: Record, body: Body | None = None) -> StreamedRecord:
    wish = Subscribed(CLIENT, ("*",), 0, "n")
    (send,) = side().render_event(wish, record, body)
    item: Any = send.frames[0]
    assert (send.address, item.tag, item.seq) == (b"alice", "n", record.seq)
    found: StreamedRecord = item
    return found


def test_an_event_is_the_record_without_its_empty_fields() -> None:
    item = streamed(Record(5, 2.0, Kind.ENDED, "j", state="succeeded"))
    assert item.topic == "broker.ended"
    assert json.loads(item.data)["event"]["state"] == "succeeded"
    assert "fault" not in json.loads(item.data)["event"]


def test_a_published_event_is_its_content() -> None:
    published = Record(6, 2.0, Kind.PUBLISHED, detail="my.topic")
    item = streamed(published, CODEC.write_answer(Answer({"b": b"\x00"})))
    assert item.topic == "my.topic"
    assert json.loads(item.data)["event"] == to_jsonable({"b": b"\x00"})
    assert json.loads(streamed(published, UNKNOWN).data)["event"] is None
    assert "http" in json.loads(streamed(published, Body("http", (b"{",))).data)["event"]
