"""One delivery: allowed hosts, signatures, the request."""

import hashlib
import hmac
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from dragoman.model.webhook import split_hook_url
from dragoman.server.webhook_post import (
    HookPolicy,
    HookRefused,
    open_secret,
    post,
    signature,
)
from dragoman.server.webhook_settings import WebhookSection


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server: Any = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server.got.append((self.path, dict(self.headers), body))
        self.send_response(302 if "away" in self.path else 204)
        self.send_header("Location", "http://169.254.169.254/")
        self.end_headers()

    def log_message(self, *args: Any) -> None: ...


@pytest.fixture
def receiver() -> Iterator[Any]:
    server: Any = HTTPServer(("127.0.0.1", 0), Receiver)
    server.got = []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def url_of(receiver: Any, path: str = "/hook?x=1") -> str:
    return f"http://127.0.0.1:{receiver.server_port}{path}"


def test_a_body_is_posted_with_its_headers(receiver: Any) -> None:
    post(url_of(receiver), {"X": "y"}, b"{}", HookPolicy())
    ((path, headers, body),) = receiver.got
    assert (path, headers["X"], body) == ("/hook?x=1", "y", b"{}")


def test_a_redirect_is_not_followed(receiver: Any) -> None:
    with pytest.raises(OSError, match="status 302"):
        post(url_of(receiver, "/away"), {}, b"", HookPolicy())


def addresses(*inside: str) -> Callable[[str, int], list[str]]:
    return lambda host, port: ["93.184.216.34", *inside]


def test_a_secured_broker_reaches_listed_and_public_hosts_only(receiver: Any) -> None:
    secured = WebhookSection(hosts=("*.example.org",)).policy(is_secured=True)
    with pytest.raises(HookRefused, match=r"not in .webhooks. hosts"):
        post(url_of(receiver), {}, b"", secured)
    for inside in ("127.0.0.1", "10.0.0.7", "169.254.169.254", "::1", "fe80::1%eth0"):
        with pytest.raises(HookRefused, match="private = true"):
            post("https://a.example.org/", {}, b"", secured, addresses(inside))
    assert receiver.got == []
    allowed = WebhookSection(hosts=("127.0.0.1",), private=True).policy(is_secured=True)
    post(url_of(receiver), {}, b"", allowed)
    with pytest.raises(HookRefused):
        post(url_of(receiver), {}, b"", WebhookSection().policy(is_secured=True))
    assert WebhookSection().policy(is_secured=False) == HookPolicy(None, True)


@pytest.mark.parametrize("url", ["ftp://x/", "https://", "nothing", "https://u:p@host/"])
def test_what_is_no_webhook_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="webhook"):
        split_hook_url(url)
    with pytest.raises(ValidationError, match="webhook"):
        WebhookSection(services={"mail": url})
    with pytest.raises(HookRefused):
        post(url, {}, b"", HookPolicy())


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://hooks.example.org/x", ""),
        ("https://elsewhere.example.com/x", "is not in"),
        ("http://10.0.0.7/x", "private = true"),
        ("http://[::1]:9/x", "private = true"),
        ("gopher://hooks.example.org/", "is no webhook"),
    ],
)
def test_a_url_is_checked_as_far_as_its_text_can_say(url: str, reason: str) -> None:
    policy = HookPolicy(("*.example.org", "10.*", "::1"), is_private_allowed=False)
    if reason:
        with pytest.raises(HookRefused, match=reason):
            policy.check_url(url)
    else:
        policy.check_url(url)


def test_the_secret_is_made_once_and_signs(tmp_path: Path) -> None:
    path = tmp_path / "webhook.key"
    secret = open_secret(path)
    assert open_secret(path) == secret
    assert path.stat().st_mode & 0o777 == 0o600
    wanted = hmac.new(secret, b"17.{}", hashlib.sha256).hexdigest()
    assert signature(secret, 17, b"{}") == f"t=17,v1={wanted}"
