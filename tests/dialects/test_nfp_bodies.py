"""The JSON bodies of NFP: what is read of them, and how ours compare with NorFab's."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.nfp import bodies
from dragoman.model.fault import Fault, FaultCode

VECTORS: dict[str, list[str]] = {
    v["name"]: v["frames"]
    for v in json.loads(
        (Path(__file__).parent.parent / "vectors/nfp/norfab-0.25.0.json").read_text()
    )
}
UUID = "f851f143230a44b3a0c11db62e4f79be"


def captured(name: str) -> bytes:
    return bytes.fromhex(VECTORS[name][-1])


def test_our_202_and_201_are_norfabs_byte_for_byte() -> None:
    workers = ("demo-worker-1", "demo-worker-2")
    ours = bodies.dispatched(workers, UUID, "all", "demo")
    assert ours == captured("job-all/02 RESPONSE 202")
    ours = bodies.accepted("demo-worker-2", UUID, "demo")
    assert ours == captured("job-all/05 RESPONSE 201")


def test_our_404_and_102_are_norfabs_byte_for_byte() -> None:
    theirs = captured("not-found/04 RESPONSE 404")
    uuid = json.loads(theirs)["uuid"]
    assert bodies.job_status("demo-worker-1", uuid, "demo", "JOB NOT FOUND") == theirs
    theirs = captured("input/13 RESPONSE 102")
    uuid = json.loads(theirs)["uuid"]
    asked = bodies.question(captured("input/08 EVENT 200 input_request"))
    ours = bodies.job_status("demo-worker-1", uuid, "demo", "WAITING_CLIENT_INPUT", **asked)
    assert ours == theirs


def test_our_400_has_norfabs_fields_and_more() -> None:
    theirs = json.loads(captured("no-such-service/02 RESPONSE 400"))
    ours = json.loads(
        bodies.failed(theirs["uuid"], "all", "nosuch", Fault(FaultCode.NO_WORKER, "nobody"))
    )
    assert list(ours)[: len(theirs)] == list(theirs)
    assert ours["errors"] == ["nobody"]
    assert (ours["error"], ours["code"]) == ("nobody", "no_worker")


def test_our_event_has_norfabs_fields_in_its_order() -> None:
    theirs = json.loads(captured("input/06 EVENT 200 progress"))
    ours = json.loads(bodies.event("w1", "demo", "u", "starting", "now", task="ask"))
    assert list(ours) == list(theirs)


def test_a_timestamp_is_written_as_norfabs() -> None:
    assert bodies.timestamp(0.4156) == "01-Jan-1970 00:00:00.415"


def test_heads_of_captured_bodies() -> None:
    asked = bodies.read_event(captured("input/08 EVENT 200 input_request"))
    assert asked.event_type == "input_request"
    assert asked.input_request is not None
    assert asked.input_request.question == "go on?"
    assert bodies.read_event(captured("input/19 EVENT 200 result_ready")).input_request is None
    assert bodies.read_post(captured("job-all/01 POST")).timeout == 20
    assert bodies.read_fault(captured("job-all/23 RESPONSE 200")) is None
    assert bodies.owner(captured("job-all/23 RESPONSE 200")) == "demo-worker-2"
    assert bodies.read_status(captured("not-found/04 RESPONSE 404")) == "JOB NOT FOUND"


def test_a_name_like_a_huge_number_is_still_a_good_body() -> None:
    assert bodies.read_post(b'{"task":"e1234","kwargs":{"id":"7e999","n":1.5e3}}').task == "e1234"


@pytest.mark.parametrize("number", ["1e999", "1E999", "-2.5E+309", "9" * 400])
def test_a_number_beyond_a_float_is_refused(number: str) -> None:
    with pytest.raises(ValueError, match="too large"):
        bodies.read_post(b'{"task":"x","kwargs":{"a":%s}}' % number.encode())


def test_a_failed_result_of_any_worker_is_a_fault() -> None:
    said = b'{"w1":{"failed":false},"w2":{"failed":true,"errors":["x"]}}'
    assert bodies.read_fault(said) == Fault(FaultCode.TASK_FAILED, "x")


def test_a_result_gets_another_name_and_keeps_its_bytes() -> None:
    assert bodies.rekey(b'{"w2":{ "result": 1.50 }}', "w2", "w1") == b'{"w1":{ "result": 1.50 }}'
    assert bodies.rekey(b"opaque", "w2", "w1") == b"opaque"
    assert bodies.owner(b"opaque") == ""


def test_a_call_is_given_a_time_out_only_if_it_has_none() -> None:
    assert json.loads(bodies.with_timeout(b'{"task":"x"}', 4.00049)) == {
        "task": "x",
        "timeout": 4.0,
    }
    assert json.loads(bodies.with_timeout(b'{"task":"x","timeout":9}', 4.0))["timeout"] == 9


def test_a_clean_disconnect_is_recognised() -> None:
    assert bodies.is_clean(b'{"clean":true}')
    assert not any(map(bodies.is_clean, (None, b"", b"{}", b"bye", b'{"clean":false}')))


@pytest.mark.parametrize(
    "read", [bodies.read_open, bodies.read_event, bodies.read_fault, bodies.read_status]
)
@given(st.binary(max_size=40) | st.sampled_from([b"[" * 5000, b"{}", b"[]", b"null"]))
def test_lenient_readers_read_anything(read: Callable[[bytes], Any], body: bytes) -> None:
    read(body)


@given(st.binary(max_size=40) | st.sampled_from([b"[" * 5000, b"{}", b"[]", b"null"]))
def test_strict_readers_raise_nothing_but_value_errors(body: bytes) -> None:
    for read in (bodies.read_post, bodies.read_subscription):
        try:
            read(body)
        except ValueError:
            continue


def test_an_empty_subscription_is_for_all_future_events() -> None:
    assert bodies.read_subscription(b"").topics == ["*"]


def test_a_management_result_without_a_json_form_is_text() -> None:
    assert bodies.to_json({1: 2}) == b'"{1: 2}"'
    assert bodies.question(b"no event") == {}
