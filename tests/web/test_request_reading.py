"""Hostile and broken requests: each gets an answer, and nobody else notices."""

import socket
import time

import pytest
from starlette.datastructures import Headers
from tests.web.caller import Caller

from dragoman.web.jobs import JobRequest
from dragoman.web.problems import Problem
from dragoman.web.request_reading import checked_name, media_type, read_json

pytestmark = pytest.mark.interop
JSON = "application/json"


def test_a_body_larger_than_allowed_is_refused_before_it_is_read(caller: Caller) -> None:
    head = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    found = caller.raw(head + b"Content-Length: 99999999999\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 413")
    assert b"application/problem+json" in found
    assert b"too_large" in found


def test_a_body_that_grows_too_large_on_the_way_is_refused(caller: Caller) -> None:
    head = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    piece = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    with socket.create_connection((caller.host, caller.port), timeout=20) as line:
        line.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        answer = b""
        try:
            for _ in range(6):
                line.sendall(piece)
        except OSError:
            pass
        try:
            while part := line.recv(65536):
                answer += part
        except OSError:
            pass
    # The connection may be cut before the answer could be read; it is never taken in.
    assert answer == b"" or answer.startswith(b"HTTP/1.1 413")
    assert caller.get("/healthz").status == 200


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b'{"service": }', b"[" * 100_000, b"nul"])
def test_what_is_not_json_is_refused(caller: Caller, body: bytes) -> None:
    found = caller.ask("POST", "/v1/jobs", raw=body, Content_Type=JSON)
    assert found.status == 400
    assert found.is_problem


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_body_that_any_page_could_send_is_refused(caller: Caller, kind: str) -> None:
    found = caller.ask("POST", "/v1/jobs", raw=b'{"service":"s"}', Content_Type=kind)
    assert (found.status, found.is_problem) == (415, True)


def test_a_name_of_another_host_is_refused(caller: Caller) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example:80", ""):
        assert _status(caller, host) == b"421", host
    for host in ("localhost", "127.0.0.1:1", "[::1]:8420"):
        assert _status(caller, host) == b"200", host


def _status(caller: Caller, host: str) -> bytes:
    head = f"GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    return caller.raw(head.encode()).split()[1]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/v2/jobs", 404),
        ("GET", "/v1/../etc/passwd", 404),
        ("GET", "/v1/jobs/..%2f..%2fetc", 404),
        ("GET", "/v1/jobs/%00", 404),
        ("GET", "/v1/jobs/%ff%fe", 404),
        ("GET", "/v1//jobs", 404),
        ("DELETE", "/v1/jobs", 405),
        ("PUT", "/v1/call", 405),
        ("POST", "/v1/events", 405),
    ],
)
def test_paths_that_lead_nowhere_say_so(
    caller: Caller, method: str, path: str, status: int
) -> None:
    found = caller.ask(method, path)
    assert (found.status, found.is_problem) == (status, True)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: " + b"a" * 200_000 + b"\r\n\r\n",
    ],
)
def test_what_is_not_http_ends_the_connection_and_nothing_else(caller: Caller, sent: bytes) -> None:
    found = caller.raw(sent)
    assert found == b"" or found.startswith(b"HTTP/1.1 4")
    assert caller.get("/healthz").status == 200


def test_a_head_that_never_ends_is_cut_off(caller: Caller) -> None:
    began = time.monotonic()
    with socket.create_connection((caller.host, caller.port), timeout=10) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: loc")
        assert line.recv(100) == b""
    assert time.monotonic() - began < 8


def test_a_body_that_never_comes_is_not_waited_for(caller: Caller) -> None:
    head = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection((caller.host, caller.port), timeout=10) as line:
        line.sendall(head + b"Content-Length: 10\r\n\r\n{")
        assert line.recv(100).startswith(b"HTTP/1.1 408")


def test_a_clients_name_is_a_name(caller: Caller) -> None:
    found = caller.post("/v1/jobs", {"service": "s"}, Dragoman_Client="worker:0a")
    assert (found.status, found.is_problem) == (400, True)


def test_names_are_printable_and_short() -> None:
    assert checked_name("net ops/é", "a service") == "net ops/é"
    for bad in ("", "a\nb", "x" * 300):
        with pytest.raises(Problem):
            checked_name(bad, "a service")


@pytest.mark.parametrize("limit", ["0", "-1", "10001", "0.5", "1_0", "x", "", "9" * 5000])
def test_a_whole_number_out_of_its_bounds_is_refused(caller: Caller, limit: str) -> None:
    refused = caller.ask("GET", f"/v1/jobs?limit={limit}")
    assert (refused.status, refused.is_problem) == (400, True)
    assert refused.json["detail"].startswith("limit must be")


def test_a_key_in_a_header_is_ascii(caller: Caller) -> None:
    body = {"service": "s"}
    refused = caller.ask("POST", "/v1/jobs", body, Idempotency_Key="caf\xe9")
    assert (refused.status, refused.json["code"]) == (400, "bad_request")
    assert caller.ask("POST", "/v1/jobs", body, Idempotency_Key="coffee").status == 202


def test_an_empty_body_has_its_defaults_and_a_type_its_parameters() -> None:
    assert read_json(b"", dict[str, int]) == {}
    assert media_type(Headers({"content-type": "Application/JSON; charset=utf-8"})) == JSON


@pytest.mark.parametrize(
    ("body", "priority", "attempts"),
    [
        (b'{"service": "a", "priority": -4.0}', -4, None),
        (b'{"service": "a", "priority": 2e3, "max_attempts": 3.0}', 2000, 3),
    ],
)
def test_a_whole_number_may_be_written_with_a_point(
    body: bytes, priority: int, attempts: int | None
) -> None:
    found = read_json(body, JobRequest)
    assert (found.priority, found.max_attempts) == (priority, attempts)
    assert type(found.priority) is int


def test_a_nested_whole_number_may_be_written_with_a_point_and_values_stay_as_they_are() -> None:
    body = b'{"service": "a", "args": [1.0], "parent": {"job": "j", "position": 2.0}}'
    found = read_json(body, JobRequest)
    assert found.parent is not None
    assert found.parent["position"] == 2
    assert type(found.args[0]) is float


@pytest.mark.parametrize("priority", [b"1.5", b"1e300", b'"1"'])
def test_other_numbers_are_refused(priority: bytes) -> None:
    with pytest.raises(Problem, match="priority"):
        read_json(b'{"service": "a", "priority": ' + priority + b"}", JobRequest)
