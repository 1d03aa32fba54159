"""When a request is the same request."""

from dragoman.dialects.memo01.requests import Key, Request, Requests, connection_of, key_of
from dragoman.model.names import JobId, PeerId

ONE, TWO = b"connect1", b"connect2"
ID = b"\x80\x00\x00\x07"
LIVE: dict[bytes, set[bytes]] = {ONE: set(), TWO: set()}


def opened(requests: Requests, job: str, key: Key, address: bytes) -> Request:
    request = Request(key, JobId(job), PeerId("memo/c"), 1000, False)
    requests.open(request, address)
    return request


KEY = key_of(ONE + ID, b"message")


def test_an_address_is_a_connection_and_the_way_to_the_request() -> None:
    assert connection_of(ONE + b"\0\0\0\5" + ID) == ONE
    assert key_of(ONE + b"\0\0\0\5" + ID, b"message") == KEY


def test_other_bytes_or_another_id_are_another_request() -> None:
    assert key_of(ONE + ID, b"another") != KEY
    assert key_of(ONE + b"\x80\x00\x00\x08", b"message") != KEY


def test_the_same_address_is_the_same_request_while_it_is_open_and_after() -> None:
    requests = Requests(60, 10)
    request = opened(requests, "j", KEY, ONE + ID)
    assert requests.find_resent(KEY, ONE + ID, LIVE) is request
    requests.answered(request, 100.0)
    assert requests.find_resent(KEY, ONE + ID, LIVE) is request


def test_another_connection_brings_the_same_request_while_it_is_open() -> None:
    requests = Requests(60, 10)
    request = opened(requests, "j", KEY, ONE + ID)
    assert requests.find_resent(KEY, TWO + ID, LIVE) is request


def test_after_the_answer_another_connection_asks_anew_unless_the_first_is_gone() -> None:
    requests = Requests(60, 10)
    request = opened(requests, "j", KEY, ONE + ID)
    requests.answered(request, 100.0)
    assert requests.find_resent(KEY, TWO + ID, LIVE) is None
    assert requests.find_resent(KEY, TWO + ID, {TWO: set()}) is request


def test_a_new_job_takes_the_place_of_an_answered_one() -> None:
    requests = Requests(60, 10)
    old = opened(requests, "old", KEY, ONE + ID)
    requests.answered(old, 100.0)
    new = opened(requests, "new", KEY, TWO + ID)
    assert requests.of_job(JobId("old")) is None
    requests.forget(old)
    assert requests.find_resent(KEY, TWO + ID, LIVE) is new


def test_a_failed_request_is_forgotten_so_that_a_resend_tries_again() -> None:
    requests = Requests(60, 10)
    requests.forget(opened(requests, "j", KEY, ONE + ID))
    assert requests.find_resent(KEY, ONE + ID, LIVE) is None
    assert requests.of_job(JobId("j")) is None


def test_answered_requests_are_forgotten_after_the_window() -> None:
    requests = Requests(60, 10)
    requests.answered(opened(requests, "j", KEY, ONE + ID), 100.0)
    other = key_of(ONE + ID, b"other")
    requests.answered(opened(requests, "k", other, ONE + ID), 161.0)
    assert requests.find_resent(KEY, ONE + ID, LIVE) is None
    assert len(requests) == 1


def test_only_so_many_answered_requests_are_remembered() -> None:
    requests = Requests(60, 10)
    for n in range(1000):
        key = key_of(ONE + ID, b"%d" % n)
        requests.answered(opened(requests, f"j{n}", key, ONE + ID), 100.0)
    assert len(requests) == 10
    assert requests.of_job(JobId("j999")) is not None
