"""The statements of `docs/bridging.md`: what crosses between dialects, and what is lost.

Every ordered pair of dialects, with the body codecs of the broker. What sides add to a body
(deadlines, notes, statuses) is in the tests of those sides.
"""

from itertools import permutations
from typing import Any, Final

import pytest

from dragoman.dialects.base import convert_answer, convert_call
from dragoman.dialects.registry import DIALECTS, body_codecs
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.fault import Fault, FaultCode

CODECS: Final = body_codecs()
CLIENTS: Final = tuple(name for name, each in DIALECTS.items() if each.has_clients)
WORKERS: Final = tuple(DIALECTS)
REQUESTS: Final = [(c, w) for c in CLIENTS for w in WORKERS if c != w]
RESULTS: Final = [(w, c) for c, w in REQUESTS]
JSON: Final = frozenset({"nfp", "ncl", "http"})
VALUES: Final[list[Any]] = [
    *(None, True, False, 0, -7, 2**31 - 1, 3.25, "", "naïve ☃", [], {}),
    *([1, [2, [3]]], {"a": {"b": [None, True, "x"]}}, [b"\x00\xff"], {"b": b"\x00\xff"}),
]


def asked(call: Call, client: str, worker: str) -> Call:
    """Convert a call of one dialect's client for a worker of another."""
    body = convert_call(CODECS, CODECS[client].write_call(call), worker)
    return CODECS[worker].read_call(body)


def answered(answer: Answer, worker: str, client: str) -> Answer:
    """Convert a result of one dialect's worker for a client of another."""
    body = convert_answer(CODECS, CODECS[worker].write_answer(answer), client)
    return CODECS[client].read_answer(body)


# --- content that crosses -----------------------------------------------------------------------


@pytest.mark.parametrize(("client", "worker"), REQUESTS)
def test_calls_cross_whatever_their_arguments(client: str, worker: str) -> None:
    for value in VALUES:
        for call in (
            Call("add", (value,)),
            Call("add", (value, value)),
            Call("add", (), {"x": value}),
            Call("add", (value,), {"x": value}),
        ):
            assert asked(call, client, worker) == call
    assert asked(Call("add"), client, worker) == Call("add")


@pytest.mark.parametrize(("client", "worker"), REQUESTS)
def test_raw_requests_cross_as_raw_or_as_the_only_argument_of_their_task(
    client: str, worker: str
) -> None:
    assert asked(Call(raw=b"\x00raw"), client, worker) == Call(raw=b"\x00raw")
    told = asked(Call("resize", raw=b"\x00raw"), client, worker)
    assert told in (Call("resize", raw=b"\x00raw"), Call("resize", (b"\x00raw",)))


@pytest.mark.parametrize(("worker", "client"), RESULTS)
def test_values_and_raw_bytes_cross(worker: str, client: str) -> None:
    for value in VALUES:
        assert answered(Answer(value), worker, client).value == value
    assert answered(Answer(raw=b"\x00raw"), worker, client).raw == b"\x00raw"


@pytest.mark.parametrize(("worker", "client"), RESULTS)
def test_a_failure_keeps_its_message_except_to_and_from_memo(worker: str, client: str) -> None:
    failed = Answer(fault=Fault(FaultCode.TASK_FAILED, "out of paper"))
    if "memo" in (worker, client):
        with pytest.raises(Unmappable, match="memo has no form for a fault"):
            answered(failed, worker, client)
    else:
        assert answered(failed, worker, client).fault == failed.fault


@pytest.mark.parametrize(("client", "worker"), REQUESTS)
def test_headers_cross_except_to_and_from_mdp(client: str, worker: str) -> None:
    call = Call("add", (1,), headers={"trace": "abc"})
    is_lost = "mdp" in (client, worker)
    assert asked(call, client, worker).headers == ({} if is_lost else call.headers)


# --- content that is refused --------------------------------------------------------------------


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize(("client", "worker"), REQUESTS)
def test_numbers_that_json_does_not_have_are_refused_where_one_side_is_json(
    client: str, worker: str, value: float
) -> None:
    if JSON.isdisjoint((client, worker)):
        assert repr(asked(Call("add", (value,)), client, worker).args[0]) == repr(value)
    else:
        with pytest.raises(Unmappable, match=f"JSON has no {value}"):
            asked(Call("add", (value,)), client, worker)


@pytest.mark.parametrize(("one", "other"), list(permutations(CLIENTS, 2)))
def test_integers_cross_zss_as_floats_if_that_is_exact(one: str, other: str) -> None:
    for number in (2**31, 2**32, 2**53, -(2**53)):
        assert answered(Answer(number), one, other).value == number
    if "zss" in (one, other):
        with pytest.raises(Unmappable, match="exceeds 53 bits"):
            answered(Answer(2**53 + 1), one, other)
    else:
        assert answered(Answer(2**53 + 1), one, other).value == 2**53 + 1


@pytest.mark.parametrize("other", ["nfp", "memo", "http"])
def test_integers_beyond_64_bits_have_no_form_in_dcp(other: str) -> None:
    with pytest.raises(Unmappable, match="no MessagePack form"):
        answered(Answer(2**70), other, "dcp")
    assert answered(Answer(2**64 - 1), other, "dcp").value == 2**64 - 1


@pytest.mark.parametrize("client", [c for c in CLIENTS if c != "nfp"])
def test_a_call_without_a_task_is_refused_for_nfp_workers(client: str) -> None:
    with pytest.raises(Unmappable, match="an nfp call needs a task"):
        asked(Call("", (1,)), client, "nfp")


@pytest.mark.parametrize("client", ["nfp", "ncl", "http"])
@pytest.mark.parametrize("worker", ["zss", "dcp"])
def test_keys_that_are_not_text_are_refused_for_json(worker: str, client: str) -> None:
    with pytest.raises(Unmappable, match="is not text"):
        answered(Answer({1: "a"}), worker, client)


# --- content that changes -----------------------------------------------------------------------


def test_verbs_in_capitals_are_read_in_small_letters() -> None:
    assert asked(Call("PING"), "zss", "nfp").task == "ping"
    assert asked(Call("myTask"), "zss", "nfp").task == "myTask"


@pytest.mark.parametrize("raw", [b"", b"7", b"\x00", b"\xa1x", b"\xd9\xd9\xf7", b"null", b"{}"])
@pytest.mark.parametrize(("worker", "client"), RESULTS)
def test_a_result_that_is_bytes_stays_bytes_and_may_become_raw_or_a_value(
    worker: str, client: str, raw: bytes
) -> None:
    for answer in (Answer(raw), Answer(raw=raw)):
        told = answered(answer, worker, client)
        assert (told.value if told.raw is None else told.raw) == raw


@pytest.mark.parametrize("client", sorted(JSON - {"ncl"}))
def test_a_map_that_json_would_read_as_bytes_is_refused(client: str) -> None:
    for value in ({"$bytes": "AAA="}, [{"a": {"$bytes": ""}}]):
        with pytest.raises(Unmappable, match="would be read as bytes"):
            asked(Call("t", (value,)), client, "dcp")
    others: list[Any] = [{"$bytes": {"a": 1}}, {"$bytes": "AAA=", "b": 1}]
    for other in others:
        assert asked(Call("t", (other,)), client, "dcp").args == (other,)
    assert asked(Call("t", ({"$bytes": "no base64"},)), client, "dcp").args == (
        {"$bytes": "no base64"},
    )


def test_a_map_that_looks_like_a_fault_of_ours_is_refused() -> None:
    in_dcp = Answer({"dragoman-fault": {"code": "task_failed", "message": "x"}})
    in_memo = Answer({"fault": "task_failed", "message": "x"})
    for answer, client in ((in_dcp, "dcp"), (in_dcp, "mdp"), (in_memo, "memo")):
        with pytest.raises(Unmappable, match="would be read as a fault"):
            answered(answer, "http", client)
        with pytest.raises(Unmappable, match="would be read as a fault"):
            answered(answer, client, "http")
