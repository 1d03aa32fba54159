"""Conversion between dialects, and subscriptions."""

import pytest

from dragoman.dialects.base import (
    BodyCodec,
    BodyCodecs,
    Subscribed,
    check_result_size,
    convert_answer,
    convert_call,
    raw_as_argument,
    topic_of,
)
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, ResultTooLarge, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import PeerId
from dragoman.model.record import Kind, Record


class Plain:
    """A body codec that writes everything as text, after a prefix of its own."""

    def __init__(self, name: str) -> None:
        self.name = name

    def read_call(self, body: Body) -> Call:
        mark, task = body.parts
        assert mark == self.name.encode()
        return Call(task.decode())

    def write_call(self, call: Call) -> Body:
        if call.raw is not None:
            raise Unmappable(f"{self.name} carries no raw bytes")
        return Body(self.name, (self.name.encode(), call.task.encode()))

    def read_answer(self, body: Body) -> Answer:
        _, said, worker, failed = body.parts
        fault = Fault(FaultCode.TASK_FAILED, failed.decode()) if failed else None
        return Answer(said.decode(), None, fault, worker.decode())

    def write_answer(self, answer: Answer) -> Body:
        failed = answer.fault.message if answer.fault else ""
        said = (self.name, str(answer.value), answer.worker, failed)
        return Body(self.name, tuple(part.encode() for part in said))


CODECS: BodyCodecs = {name: Plain(name) for name in ("east", "west")}


def test_the_stand_in_is_a_body_codec() -> None:
    codec: BodyCodec = Plain("east")
    assert codec.name == "east"


def test_a_raw_request_for_a_task_is_a_call_and_any_other_stays_as_it_is() -> None:
    named = raw_as_argument(Call("resize", raw=b"png", headers={"a": "b"}, timeout=2.0))
    assert named == Call("resize", (b"png",), headers={"a": "b"}, timeout=2.0)
    for call in (Call(raw=b"png"), Call("resize", (1,))):
        assert raw_as_argument(call) is call


def test_a_body_of_the_same_dialect_passes_untouched() -> None:
    body = Body("east", (b"not", b"even", b"readable"))
    assert convert_call(CODECS, body, "east") is body
    assert convert_answer(CODECS, body, "east", "w1") is body


def test_a_request_is_converted_for_another_dialect() -> None:
    body = Body("east", (b"east", b"add"))
    assert convert_call(CODECS, body, "west") == Body("west", (b"west", b"add"))


def test_a_result_is_converted_with_the_worker_it_came_from() -> None:
    body = Body("east", (b"east", b"5", b"", b""))
    assert convert_answer(CODECS, body, "west", "w1").parts == (b"west", b"5", b"w1", b"")


def test_a_result_that_names_its_worker_keeps_the_name() -> None:
    body = Body("east", (b"east", b"5", b"w9", b""))
    assert convert_answer(CODECS, body, "west").parts == (b"west", b"5", b"w9", b"")


def test_a_failure_crosses_over_as_a_failure() -> None:
    body = Body("east", (b"east", b"", b"w1", b"out of paper"))
    assert convert_answer(CODECS, body, "west").parts[3] == b"out of paper"


def test_a_body_of_an_unknown_dialect_cannot_be_converted() -> None:
    body = Body("north", (b"x",))
    with pytest.raises(Unmappable, match="north"):
        convert_call(CODECS, body, "west")
    with pytest.raises(Unmappable, match="north"):
        convert_answer(CODECS, body, "west")


def test_a_subscription_wants_what_one_of_its_globs_matches() -> None:
    subscribed = Subscribed(PeerId("nfp/c1"), ("device.*", "broker.ended"))
    assert subscribed.wants("device.r1")
    assert subscribed.wants("broker.ended")
    assert not subscribed.wants("broker.submitted")
    assert not subscribed.wants("Device.r1")


def test_a_subscription_without_topics_wants_nothing() -> None:
    assert not Subscribed(PeerId("nfp/c1"), ()).wants("device.r1")


def test_a_published_event_has_its_own_topic_and_every_other_record_the_brokers() -> None:
    assert topic_of(Record(1, 0.0, Kind.PUBLISHED, detail="device.r1")) == "device.r1"
    assert topic_of(Record(2, 0.0, Kind.ENDED, detail="why")) == "broker.ended"


def test_a_result_may_have_as_many_bytes_as_the_limit() -> None:
    check_result_size([b"ab", b"c"], 3)
    with pytest.raises(ResultTooLarge, match="the result has 3 bytes; the limit is 2") as raised:
        check_result_size([b"ab", b"c"], 2)
    assert raised.value.code is FaultCode.TOO_LARGE
