"""Requests to an issuer, against a real HTTP server on the loopback."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dragoman.server.issuer_requests import IssuerRefusal, IssuerUnavailable, fetch_json

ANSWERS = {
    "/ok": (200, b'{"a": 1}'),
    "/list": (200, b"[]"),
    "/page": (200, b"<html>"),
    "/large": (200, b'"' + b"x" * 1024 * 1024 + b'"'),
    "/moved": (302, b"{}"),
    "/broken": (500, b"{}"),
    "/refused": (400, b'{"error": "invalid_grant", "error_description": "used\\nbefore"}'),
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, body = ANSWERS[self.path.partition("?")[0]]
        self._answer(status, body)

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        form, name = self.rfile.read(size).decode(), self.headers.get("X-Name", "")
        self._answer(200, f'{{"form": "{form}", "name": "{name}"}}'.encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Location", "/ok")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Be silent."""


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    serving.join()
    server.server_close()


def test_an_object_is_returned(base: str) -> None:
    assert fetch_json(f"{base}/ok?x=y", None) == {"a": 1}


def test_a_form_is_posted(base: str) -> None:
    found = fetch_json(f"{base}/ok", None, {"a": "b c"}, {"X-Name": "n"})
    assert found == {"form": "a=b+c", "name": "n"}


@pytest.mark.parametrize("path", ["/list", "/page", "/large", "/moved", "/broken"])
def test_every_other_answer_is_none(base: str, path: str) -> None:
    with pytest.raises(IssuerUnavailable, match=r"127\.0\.0\.1"):
        fetch_json(f"{base}{path}", None)


def test_the_reason_of_a_refusal_is_one_line(base: str) -> None:
    with pytest.raises(IssuerRefusal, match=r"invalid_grant: used\?before"):
        fetch_json(f"{base}/refused", None)


@pytest.mark.parametrize("url", ["http://login.example/x", "file:///etc/passwd", "ftp://x/y", ""])
def test_only_https_leaves_this_machine(url: str) -> None:
    with pytest.raises(IssuerUnavailable, match="no https URL"):
        fetch_json(url, None)


def test_a_port_that_nobody_listens_on_is_named() -> None:
    with pytest.raises(IssuerUnavailable, match=r"127\.0\.0\.1"):
        fetch_json("http://127.0.0.1:9/x", None)
