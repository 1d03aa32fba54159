"""Calls and results as NFP bodies, there and back."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.base import BodyCodec as AnyDress
from dragoman.dialects.nfp.body_codec import NfpBodyCodec
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode

codec: AnyDress = NfpBodyCodec()
VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "vectors/nfp/norfab-0.25.0.json").read_text()
)

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.binary(max_size=8),
    lambda deeper: (
        st.lists(deeper, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="ascii"), min_size=1, max_size=4), deeper)
    ),
    max_leaves=8,
)
calls = st.builds(
    Call,
    st.text(min_size=1, max_size=6),
    st.lists(plain, max_size=3).map(tuple),
    st.dictionaries(st.text(max_size=5), plain, max_size=3),
    headers=st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2),
    timeout=st.none() | st.integers(1, 99).map(float),
)


@given(calls)
def test_a_call_reads_back_as_it_was(call: Call) -> None:
    assert codec.read_call(codec.write_call(call)) == call


@given(st.binary(max_size=20), st.sampled_from(["", "resize"]))
def test_raw_bytes_read_back_as_raw_bytes(raw: bytes, task: str) -> None:
    call = Call(task, raw=raw, timeout=2.5)
    assert codec.read_call(codec.write_call(call)) == call


@given(plain)
def test_a_value_reads_back_as_it_was(said: Any) -> None:
    answer = Answer(said, worker="w1")
    assert codec.read_answer(codec.write_answer(answer)) == answer


@given(st.binary(max_size=20))
def test_a_raw_answer_reads_back_raw(raw: bytes) -> None:
    answer = Answer(raw=raw, worker="w1")
    assert codec.read_answer(codec.write_answer(answer)) == answer


def test_a_fault_is_a_failed_result_with_its_message() -> None:
    body = codec.write_answer(Answer(fault=Fault(FaultCode.RUN_TIMEOUT, "too slow"), worker="w1"))
    said = json.loads(body.parts[0])["w1"]
    assert (said["failed"], said["errors"], said["status"]) == (True, ["too slow"], "timeout")
    assert codec.read_answer(body).fault == Fault(FaultCode.TASK_FAILED, "too slow")


def test_the_result_object_has_norfabs_fields_and_no_others() -> None:
    captured = next(v for v in VECTORS if v["name"] == "job-all/23 RESPONSE 200")
    (theirs,) = json.loads(bytes.fromhex(captured["frames"][-1])).values()
    (ours,) = json.loads(codec.write_answer(Answer(5, worker="w1")).parts[0]).values()
    assert list(ours) == list(theirs)


def captured(word: str) -> list[Body]:
    return [
        Body("nfp", (bytes.fromhex(v["frames"][-1]),)) for v in VECTORS if word in str(v["name"])
    ]


def test_every_captured_post_is_a_call() -> None:
    bodies = [b for b in captured(" POST") if b.parts[0]]
    assert len(bodies) > 20
    assert all(codec.read_call(body).task for body in bodies)


def test_every_captured_result_is_an_answer_of_its_worker() -> None:
    bodies = [b for b in captured("RESPONSE 200") if b.parts[0].startswith(b'{"')]
    answers = [codec.read_answer(body) for body in bodies]
    assert {a.worker for a in answers} >= {"demo-worker-1", "demo-worker-2", "fs-worker-1"}


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"task":1}', b"\xff", b"[" * 9000])
def test_what_is_no_call_is_a_raw_request(body: bytes) -> None:
    assert codec.read_call(Body("nfp", (body,))) == Call(raw=body)


def test_a_call_with_bad_arguments_or_several_frames_is_unmappable() -> None:
    for parts in ((b'{"task":"x","args":{"a":1}}',), (b'{"task":"x"}', b"more")):
        with pytest.raises(Unmappable):
            codec.read_call(Body("nfp", parts))


def test_a_failing_status_is_a_fault_with_the_text_of_its_body() -> None:
    def fault(status: bytes, body: bytes) -> Fault | None:
        return codec.read_answer(Body("nfp", (body, status))).fault

    assert fault(b"400", b'{"error":"no"}') == Fault(FaultCode.BAD_REQUEST, "no")
    assert fault(b"500", b'{"errors":["a","b"]}') == Fault(FaultCode.TASK_FAILED, "a; b")
    assert fault(b"500", b"boom\n") == Fault(FaultCode.TASK_FAILED, "boom")
    assert fault(b"408", b"") == Fault(FaultCode.TASK_FAILED, "status 408")


def test_several_content_frames_are_a_list() -> None:
    body = Body("nfp", (b"1", b"\xff", b"200"))
    assert codec.read_answer(body) == Answer([1, b"\xff"])
    assert codec.read_answer(Body("nfp", (b"",))) == Answer()


@pytest.mark.parametrize(
    "said", [{1: 2}, object(), float("nan"), float("inf"), {"a": {"b": {2.5: 1}}}]
)
def test_a_value_without_a_json_form_is_unmappable(said: Any) -> None:
    with pytest.raises(Unmappable, match="nfp"):
        codec.write_answer(Answer(said, worker="w1"))
    with pytest.raises(Unmappable, match="nfp"):
        codec.write_call(Call("x", (said,)))


def test_a_call_without_a_task_is_unmappable() -> None:
    with pytest.raises(Unmappable, match="task"):
        codec.write_call(Call())


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (b"\xff\x00", Answer(raw=b"\xff\x00")),
        (b"7", Answer(7)),
        (b'{"a":1}', Answer({"a": 1})),
        (b'{"w":{"result":1},"v":{"result":2}}', Answer({"w": {"result": 1}, "v": {"result": 2}})),
        (b'{"input_id":"q","value":{"$bytes":"aGk="}}', Answer(b"hi")),
        (b'{"$bytes":"not base64!"}', Answer({"$bytes": "not base64!"})),
        (b'{"w":{"result":{"$bytes":"!","raw":1}}}', Answer({"$bytes": "!", "raw": 1}, worker="w")),
    ],
)
def test_an_answer_in_another_form_is_its_own_value(body: bytes, answer: Answer) -> None:
    assert codec.read_answer(Body("nfp", (body,))) == answer


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"errors": ["a", "b"]}, "a; b"),
        ({"errors": [], "messages": ["m"]}, "m"),
        ({}, "the task failed without an error text"),
    ],
)
def test_a_failed_task_keeps_its_error_texts(result: dict[str, Any], words: str) -> None:
    body = json.dumps({"w1": {"result": None, "failed": True, **result}}).encode()
    fault = codec.read_answer(Body("nfp", (body,))).fault
    assert fault == Fault(FaultCode.TASK_FAILED, words)


def test_the_content_of_an_event_is_its_value() -> None:
    report = {"event_type": "progress", "message": "m", "extras": {"event": {"done": 1}}}
    assert codec.read_answer(Body("nfp", (json.dumps(report).encode(),))) == Answer({"done": 1})
    asked = {"input_request": {"id": "r1", "question": "go on?"}}
    question = {"event_type": "input_request", "message": "m", "extras": asked}
    assert codec.read_answer(Body("nfp", (json.dumps(question).encode(),))) == Answer("go on?")
    norfabs = {"event_type": "progress", "message": "m", "extras": {}}
    assert codec.read_answer(Body("nfp", (json.dumps(norfabs).encode(),))) == Answer(norfabs)
