"""Faults as HTTP statuses and maps that both client libraries understand."""

import msgpack
import pytest

from dragoman.dialects.zss.statuses import (
    fault_code,
    fault_payload,
    read_fault,
    refusal_payload,
    status_of,
)
from dragoman.model.fault import Fault, FaultCode


@pytest.mark.parametrize("code", list(FaultCode))
def test_every_fault_has_a_status_and_comes_back_by_name(code: FaultCode) -> None:
    fault = Fault(code, "what happened")
    status = int(status_of(fault))
    assert 400 <= status < 600
    said = msgpack.unpackb(fault_payload(fault))
    assert said["code"] == said["errorCode"] == status
    assert read_fault(status, said).code is code


def test_a_service_nobody_offers_has_the_words_every_component_uses() -> None:
    said = msgpack.unpackb(fault_payload(Fault(FaultCode.NO_WORKER, "no worker for ghost")))
    assert said["developerMessage"] == "The resource could not be found."
    assert said["userMessage"] == "The content you requested was not found."
    assert (said["code"], said["errorCode"]) == (404, 404)
    assert read_fault(404, said) == Fault(FaultCode.NO_WORKER, "no worker for ghost")


def test_the_words_of_a_failure_are_the_developers() -> None:
    said = msgpack.unpackb(fault_payload(Fault(FaultCode.TASK_FAILED, "boom")))
    assert said["developerMessage"] == "boom"
    assert said["userMessage"] == "There was an error while processing this request."


def test_no_string_of_a_payload_is_written_as_str8() -> None:
    for payload in (refusal_payload(404), refusal_payload(500)):
        assert b"\xd9" not in payload


def test_the_refusal_of_smi_is_what_upstreams_broker_says_and_code_beside() -> None:
    captured = bytes.fromhex("83b0646576656c6f7065724d657373616765da")
    mine = refusal_payload(500)
    assert mine[1:18] == captured[1:18]
    assert list(msgpack.unpackb(mine)) == ["developerMessage", "userMessage", "errorCode", "code"]


@pytest.mark.parametrize(
    "said", [None, "text", [1], {}, {"fault": 5, "developerMessage": {"a": 1}}]
)
def test_a_failure_of_a_foreign_service_is_a_failed_task(said: object) -> None:
    fault = read_fault(409, said)
    assert fault.code is FaultCode.TASK_FAILED
    assert fault.message


def test_a_reply_without_status_says_so() -> None:
    assert read_fault(None, None) == Fault(FaultCode.TASK_FAILED, "no status")
    assert fault_code([]) is FaultCode.TASK_FAILED
