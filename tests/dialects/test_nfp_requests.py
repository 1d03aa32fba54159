"""Requests of NFP clients: taken in as events, or refused in seven frames and on record."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialects.nfp_fabric import NfpFabric, asked, body_of, event, post, ready, told

from dragoman.core.events import InputReceived, JobSubmitted
from dragoman.dialects.nfp import wire
from dragoman.dialects.nfp.broker_side import NfpBrokerSide
from dragoman.dialects.nfp.settings import NfpSettings
from dragoman.model.body import Body
from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.model.record import Kind
from dragoman.model.target import ALL, ANY
from dragoman.model.terms import Terms

POISON = [
    b"",
    b"null",
    b"[]",
    b'"text"',
    b"{}",
    b'{"task":null}',
    b'{"task":7}',
    b"{",
    b"\xff",
    b'{"task":"x","kwargs":[]}',
    b'{"task":"x","args":{}}',
    b'{"task":"x","kwargs":{"a":"\xff"}}',
    b'{"task":"x","kwargs":{"a":1e999}}',
    b'{"task":"x","kwargs":{"a":' + b"9" * 400 + b"}}",
    b'{"task":"x","kwargs":{"a":"\\ud800"}}',
    b'{"task":"x","z":' + b"[" * 5000 + b"]" * 5000 + b"}",
]


@pytest.mark.parametrize("body", POISON, ids=range(len(POISON)))
def test_a_bad_body_is_refused_and_never_reaches_a_worker(body: bytes) -> None:
    fabric = NfpFabric()
    fabric.say("w1", ready())
    request = wire.NfpRequest(wire.POST, b"math", b"any", b"j1", body)
    fabric.say("c1", request)
    (refusal,) = fabric.heard("c1")
    assert told([refusal]) == [("RESPONSE", "400")]
    said = body_of(refusal)
    assert said["errors"] == [said["error"]]
    assert (said["status"], said["uuid"], said["workers"]) == ("FAILED", "j1", None)
    assert asked(fabric.heard("w1")) == []
    assert Kind.REJECTED in fabric.kinds()
    assert not fabric.side.client_jobs.open


@given(st.binary(max_size=30), st.integers(0, 60))
def test_an_accepted_body_is_json_for_norfabs_worker(noise: bytes, at: int) -> None:
    whole = b'{"task":"add","kwargs":{"x":2.5e7,"name":"\\u00e9"},"args":[1],"timeout":20}'
    body = whole[:at] + noise + whole[at:]
    events = NfpBrokerSide("nfp").receive(b"c1", wire.encode(post(body=body)), 1.0)
    if isinstance(events[0], JobSubmitted):
        said = orjson.loads(body)
        assert isinstance(said, dict)
        assert isinstance(said["task"], str)


def submitted(request: wire.NfpRequest, settings: NfpSettings | None = None) -> JobSubmitted:
    side = NfpBrokerSide("nfp", settings=settings)
    (event,) = side.receive(b"c1", wire.encode(request), 1.0)
    assert isinstance(event, JobSubmitted)
    return event


def test_a_post_becomes_a_submission_with_the_body_untouched() -> None:
    body = b'{ "task": "add", "kwargs": {"x": 2}, "priority": 3, "key": "k1" }'
    assert submitted(post(body=body)) == JobSubmitted(
        JobId("j1"),
        PeerId("nfp/c1"),
        ServiceName("math"),
        Body("nfp", (body,)),
        ANY,
        Terms(patience=None, timeout=600.0, priority=3),
        "add",
        "k1",
    )


@pytest.mark.parametrize("priority", [2**31, -(2**31) - 1, 10**30])
def test_a_priority_beyond_what_the_ledger_counts_is_refused(priority: int) -> None:
    fabric = NfpFabric()
    fabric.say("c1", post(body=b'{"task":"x","priority":%d}' % priority))
    assert told(fabric.heard("c1")) == [("RESPONSE", "400")]


def test_the_time_out_of_the_body_wins_over_the_setting() -> None:
    settings = NfpSettings(timeout=99.0, patience=0.0)
    assert submitted(post(body=b'{"task":"x"}'), settings).terms.timeout == 99.0
    assert submitted(post(body=b'{"task":"x","timeout":7}'), settings).terms.timeout == 7.0
    assert submitted(post(body=b'{"task":"x","timeout":-1}'), settings).terms.timeout == 99.0
    assert submitted(post(), settings).terms.patience == 0.0


def test_an_empty_target_is_all_in_the_text_and_refused_for_norfab() -> None:
    assert submitted(post(target="", is_binary=True)).target == ALL
    fabric = NfpFabric()
    fabric.say("c1", post(target=""))
    assert told(fabric.heard("c1")) == [("RESPONSE", "400")]


@pytest.mark.parametrize(
    ("service", "target", "uuid"),
    [
        (b"", b"any", b"j1"),
        (b"\xff", b"any", b"j1"),
        (b"math", b"\xff", b"j1"),
        (b"math", b"[1]", b"j1"),
        (b"math", b"[]", b"j1"),
        (b"math", b"[", b"j1"),
        (b"math", b"labels:a ~ b", b"j1"),
        (b"math", b"any", b""),
        (b"math", b"any", b"\xff\xfe"),
        (b"math", b"any", b"a\x00b"),
        (b"math", b"any", b"x" * 257),
    ],
)
def test_a_bad_name_is_refused_under_the_id_it_came_with(
    service: bytes, target: bytes, uuid: bytes
) -> None:
    fabric = NfpFabric()
    fabric.say("c1", wire.NfpRequest(wire.POST, service, target, uuid, b'{"task":"x"}'))
    (reply,) = fabric.heard("c1")
    assert isinstance(reply, wire.NfpReply)
    assert (reply.uuid, reply.status) == (uuid, b"400")
    assert body_of(reply)["code"] == "bad_request"


def test_a_body_beyond_the_bound_is_refused() -> None:
    fabric = NfpFabric(NfpBrokerSide("nfp", settings=NfpSettings(max_body=20)))
    fabric.say("c1", post(body=b'{"task":"xxxxxxxxxxxxxxxxxxxxxx"}'))
    assert body_of(fabric.heard("c1")[0])["code"] == "too_large"


def test_zero_patience_refuses_at_once_as_norfab_does() -> None:
    fabric = NfpFabric(NfpBrokerSide("nfp", settings=NfpSettings(patience=0.0)))
    fabric.say("c1", post(service="nosuch", target="all"))
    (reply,) = fabric.heard("c1")
    assert told([reply]) == [("RESPONSE", "400")]
    said = body_of(reply)
    assert (said["target"], said["service"], said["code"]) == ("all", "nosuch", "no_worker")


def test_a_job_for_a_service_without_workers_waits_and_then_expires() -> None:
    fabric = NfpFabric()
    fabric.say("c1", post(body=b'{"task":"x","timeout":600}'))
    fabric.advance(599)
    assert fabric.heard("c1") == []
    fabric.advance(2)
    assert told(fabric.heard("c1")) == [("RESPONSE", "408")]


def test_a_job_that_waited_for_its_first_worker_is_announced_when_it_comes() -> None:
    fabric = NfpFabric()
    fabric.say("c1", post(target="all"))
    fabric.advance(5)
    fabric.say("w1", ready())
    (accepted,) = fabric.heard("c1")
    assert body_of(accepted) == {
        "workers": ["w1"],
        "uuid": "j1",
        "target": "all",
        "status": "DISPATCHED",
        "service": "math",
    }


def put(side: NfpBrokerSide, target: bytes) -> InputReceived:
    request = wire.NfpRequest(wire.PUT, b"math", target, b"j1", b'{"offset":8}')
    (heard,) = side.receive(b"c1", wire.encode(request), 1.0)
    assert isinstance(heard, InputReceived)
    return heard


def test_input_for_one_of_several_workers_goes_to_that_one() -> None:
    assert put(NfpBrokerSide("nfp"), b'["w2"]').worker == "w2"
    assert put(NfpBrokerSide("nfp"), b"any").worker is None
    assert put(NfpBrokerSide("nfp"), b'["w1","w2"]').worker is None


def test_input_follows_a_job_to_the_worker_that_took_it_over() -> None:
    fabric = NfpFabric()
    fabric.say("w1", ready())
    fabric.say("c1", post())
    fabric.say("w2", ready())
    fabric.say("w1", wire.NfpDisconnect(wire.WORKER, b"math", b'{"clean":true}'))
    fabric.say("w2", event("input_request", extras={"input_request": {"id": "q"}}))
    fabric.heard("w2")
    fabric.say("c1", wire.NfpRequest(wire.PUT, b"math", b'["w1"]', b"j1", b"{}"))
    assert asked(fabric.heard("w2")) == [wire.PUT]


def test_delete_cancels() -> None:
    fabric = NfpFabric()
    fabric.say("c1", post())
    fabric.say("c1", wire.NfpRequest(wire.DELETE, b"math", b"all", b"j1", b""))
    assert Kind.CANCEL_ASKED in fabric.kinds()
