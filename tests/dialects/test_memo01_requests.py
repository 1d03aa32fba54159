"""When a request is the same request."""

from dragoman.dialects.memo01.requests import (
    MemoRequest,
    MemoRequests,
    RequestKey,
    connection_of,
    has_same_id,
    key_of,
)
from dragoman.model.names import JobId, PeerId

ONE, TWO = b"connect1", b"connect2"
ID = b"\x80\x00\x00\x07"


def opened(requests: MemoRequests, job: str, key: RequestKey, address: bytes) -> MemoRequest:
    request = MemoRequest(key, JobId(job), PeerId("memo/c"), 1000, False)
    requests.open(request, address)
    return request


KEY = key_of(ONE + ID, b"message")


def test_an_address_is_a_connection_and_the_way_to_the_request() -> None:
    assert connection_of(ONE + b"\0\0\0\5" + ID) == ONE
    assert key_of(ONE + b"\0\0\0\5" + ID, b"message") == KEY


def test_other_bytes_or_another_id_are_another_request() -> None:
    assert key_of(ONE + ID, b"another") != KEY
    assert key_of(ONE + b"\x80\x00\x00\x08", b"message") != KEY


def test_addresses_of_one_request_on_two_connections_have_the_same_id() -> None:
    assert has_same_id(ONE + ID, TWO + ID)
    assert not has_same_id(ONE + ID, ONE + b"\x80\x00\x00\x08")


def test_a_request_is_known_while_it_is_open_and_after_its_answer() -> None:
    requests = MemoRequests(60, 10)
    assert requests.find_resent(KEY, 100.0) is None
    request = opened(requests, "j", KEY, ONE + ID)
    assert requests.find_resent(KEY, 100.0) is request
    requests.answered(request, 100.0)
    assert requests.find_resent(KEY, 100.0) is request


def test_a_request_is_not_known_after_the_window() -> None:
    requests = MemoRequests(60, 10)
    requests.answered(opened(requests, "j", KEY, ONE + ID), 100.0)
    assert requests.find_resent(KEY, 159.9) is not None
    assert requests.find_resent(KEY, 160.0) is None
    assert len(requests) == 0


def test_a_failed_request_is_forgotten_so_that_a_resend_tries_again() -> None:
    requests = MemoRequests(60, 10)
    requests.forget(opened(requests, "j", KEY, ONE + ID))
    assert requests.find_resent(KEY, 100.0) is None
    assert requests.of_job(JobId("j")) is None


def test_answered_requests_are_forgotten_after_the_window() -> None:
    requests = MemoRequests(60, 10)
    requests.answered(opened(requests, "j", KEY, ONE + ID), 100.0)
    other = key_of(ONE + ID, b"other")
    requests.answered(opened(requests, "k", other, ONE + ID), 161.0)
    assert requests.find_resent(KEY, 100.0) is None
    assert len(requests) == 1


def test_only_so_many_answered_requests_are_remembered() -> None:
    requests = MemoRequests(60, 10)
    for n in range(1000):
        key = key_of(ONE + ID, b"%d" % n)
        requests.answered(opened(requests, f"j{n}", key, ONE + ID), 100.0)
    assert len(requests) == 10
    assert requests.of_job(JobId("j999")) is not None
