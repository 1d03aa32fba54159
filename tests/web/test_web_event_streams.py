"""Event streams: the ledger, resumed from where it was; and a client's inbox."""

import json
import socket

import pytest
from tests.web.caller import Caller, until

from dragoman import Worker

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("math")]
CALL = {"service": "math", "task": "add", "kwargs": {"x": 2, "y": 3}}


def test_events_are_the_ledger_in_order_and_without_gaps(caller: Caller) -> None:
    caller.post("/v1/call", CALL)
    with caller.events("/v1/events?after=0") as events:
        seqs = []
        for event in events:
            assert int(event["id"]) == event["data"]["seq"]
            assert event["event"] == event["data"]["topic"]
            seqs.append(event["data"]["seq"])
            if event["event"] == "broker.ended":
                break
    assert seqs == list(range(1, len(seqs) + 1))


def test_a_stream_resumes_after_the_last_event_seen(caller: Caller) -> None:
    for _ in range(3):
        caller.post("/v1/call", CALL)
    with caller.events("/v1/events?after=0") as events:
        first = [int(event["id"]) for _, event in zip(range(4), events, strict=False)]
    with caller.events("/v1/events", Last_Event_ID=str(first[-1])) as events:
        rest = [int(event["id"]) for _, event in zip(range(4), events, strict=False)]
    assert [*first, *rest] == list(range(1, 9))


def test_topics_are_globs_and_now_means_now(caller: Caller) -> None:
    caller.post("/v1/call", CALL)
    with caller.events("/v1/events?topic=broker.ended&topic=broker.sub*") as events:
        job = caller.post("/v1/call", CALL).json["job"]
        found = [event for _, event in zip(range(2), events, strict=False)]
    assert [event["event"] for event in found] == ["broker.submitted", "broker.ended"]
    assert {event["data"]["event"]["job"] for event in found} == {job}


def test_an_idle_stream_shows_that_it_lives(caller: Caller) -> None:
    with caller.events("/v1/events?topic=nothing.ever") as events:
        line = events._answer
        assert line.readline() == b": alive\n"
        assert line.readline() == b"\n"
        assert line.readline() == b": alive\n"


def test_a_reader_that_is_behind_gets_more_than_its_window_holds(caller: Caller) -> None:
    """The window of this broker is 50 events."""
    for _ in range(40):
        caller.post("/v1/jobs", CALL)
    until(lambda: _total(caller) >= 130, "enough records")
    with caller.events("/v1/events?after=0") as events:
        seqs = [int(event["id"]) for _, event in zip(range(130), events, strict=False)]
    assert seqs == list(range(1, 131))


def _total(caller: Caller) -> float:
    lines = caller.get("/metrics").body.decode().splitlines()
    return next(float(x.split()[1]) for x in lines if x.startswith("dragoman_ledger_seq "))


def test_a_reader_that_takes_nothing_holds_up_nobody(caller: Caller) -> None:
    with socket.create_connection((caller.host, caller.port)) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.sendall(b"GET /v1/events?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for _ in range(20):
            assert caller.post("/v1/call", CALL).status == 200


@pytest.mark.parametrize("where", ["?after=x", "?after=-2", f"?after={2**70}"])
def test_a_position_that_is_none_is_refused(caller: Caller, where: str) -> None:
    assert caller.get(f"/v1/events{where}").status == 400
    assert caller.get("/v1/events", Last_Event_ID="x").status == 400


def test_too_many_topics_are_refused(caller: Caller) -> None:
    assert caller.get("/v1/events?" + "topic=a&" * 101).status == 400


def test_an_inbox_has_all_that_its_client_is_told_and_nothing_else(
    caller: Caller, math: Worker
) -> None:
    with caller.events("/v1/inbox", Dragoman_Client="carol") as inbox:
        caller.post("/v1/jobs", CALL, Dragoman_Client="dave")
        job = caller.post("/v1/jobs", CALL, Dragoman_Client="carol").json["job"]
        told = []
        for event in inbox:
            told.append(event["data"])
            if event["event"] == "final":
                break
    assert {event["job"] for event in told} == {job}
    assert told[0]["kind"] == "dispatched"
    assert (told[-1]["value"], told[-1]["state"], told[-1]["worker"]) == (5, "succeeded", math.name)


def test_a_newer_inbox_of_the_same_name_takes_over(caller: Caller) -> None:
    with (
        caller.events("/v1/inbox", Dragoman_Client="erin") as older,
        caller.events("/v1/inbox", Dragoman_Client="erin") as newer,
    ):
        assert list(older) == []
        caller.post("/v1/jobs", CALL, Dragoman_Client="erin")
        assert next(iter(newer))["event"] in ("queued", "dispatched")


def test_a_topic_cannot_forge_fields_of_the_stream(caller: Caller) -> None:
    session = caller.post("/v1/workers", {"services": ["forger"]}).json["session"]
    topic = "x\nid: 999\ndata: {}"
    with caller.events("/v1/events?topic=x*") as events:
        caller.post(f"/v1/workers/{session}/events", {"topic": topic, "event": "a\nb"})
        event = next(iter(events))
    assert event["event"] == "x id: 999 data: {}"
    assert event["data"]["topic"] == topic
    assert json.dumps(event["data"]["event"]) == '"a\\nb"'
