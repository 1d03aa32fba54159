"""An HTTP caller without the SDK: urllib, or a socket where urllib does too much."""

import contextlib
import http.client
import json
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class HttpResponse:
    """One response."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = {name.lower(): text for name, text in headers.items()}
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def is_problem(self) -> bool:
        document = self.json
        return (
            self.headers["content-type"] == "application/problem+json"
            and document["status"] == self.status
            and bool(document["detail"] and document["code"] and document["title"])
        )


class Caller:
    """Calls one broker over HTTP."""

    def __init__(self, base: str, authority: Path | None = None) -> None:
        self.base = base
        self._tls = ssl.create_default_context(cafile=authority) if authority else None
        self.host = urlsplit(base).hostname or ""
        self.port = urlsplit(base).port or 0

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        **headers: str,
    ) -> HttpResponse:
        """Make one request."""
        names = {name.replace("_", "-"): text for name, text in headers.items()}
        if body is not None:
            raw = json.dumps(body).encode()
            names.setdefault("Content-Type", "application/json")
        request = urllib.request.Request(self.base + path, raw, names, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30, context=self._tls) as answer:
                return HttpResponse(answer.status, dict(answer.headers), answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return HttpResponse(error.code, dict(error.headers), error.read())

    def get(self, path: str, **headers: str) -> HttpResponse:
        return self.ask("GET", path, None, raw=None, **headers)

    def post(self, path: str, body: Any, **headers: str) -> HttpResponse:
        return self.ask("POST", path, body, raw=None, **headers)

    def events(self, path: str, **headers: str) -> "Events":
        return Events(self, path, {name.replace("_", "-"): t for name, t in headers.items()})

    def raw(self, sent: bytes, timeout: float = 20.0) -> bytes:
        """Send bytes on a connection of their own; return all that comes back until it ends."""
        with socket.create_connection((self.host, self.port), timeout=timeout) as connection:
            found = b""
            # The broker may close the connection before it has read everything.
            with contextlib.suppress(ConnectionError):
                connection.sendall(sent)
                while piece := connection.recv(65536):
                    found += piece
            return found


class Events:
    """A stream of events."""

    def __init__(self, caller: Caller, path: str, headers: Mapping[str, str]) -> None:
        self._connection = http.client.HTTPConnection(caller.host, caller.port, timeout=20)
        self._connection.request("GET", path, headers=dict(headers))
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200, self._answer.read()
        #: The stream says that it is open; from here on nothing is missed.
        assert self._answer.readline() == b": open\n"
        assert self._answer.readline() == b"\n"
        self.comments = 0

    def __enter__(self) -> "Events":
        return self

    def __exit__(self, *exc: object) -> None:
        self._answer.close()
        self._connection.close()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        found: dict[str, Any] = {}
        while line := self._answer.readline():
            name, _, text = line.decode().rstrip("\n").partition(": ")
            if not name and text:
                self.comments += 1
            elif name in ("id", "event", "data"):
                found[name] = json.loads(text) if name == "data" else text
            elif found:
                yield found
                found = {}


class PlainWorker:
    """A worker that is nothing but requests."""

    def __init__(self, caller: Caller, service: str, **more: Any) -> None:
        self._caller = caller
        answer = caller.post("/v1/workers", {"services": [service], **more})
        assert answer.status == 201, answer.body
        self.session = answer.json["session"]
        self.name = answer.json["name"]
        self.after = 0

    @property
    def path(self) -> str:
        return f"/v1/workers/{self.session}"

    def poll(self, wait: float = 10.0) -> dict[str, Any]:
        """Return the next message."""
        answer = self._caller.post(f"{self.path}/poll", {"wait": wait, "after": self.after})
        assert answer.status == 200, answer.body
        message: dict[str, Any] = answer.json
        self.after = message.get("word", self.after)
        return message

    def report(self, message: dict[str, Any], **body: Any) -> str:
        """Report on a job; return the verdict."""
        path = f"{self.path}/jobs/{message['job']}/{message['attempt']}"
        answer = self._caller.post(path, body)
        assert answer.status == 200, answer.body
        return str(answer.json["status"])

    def leave(self) -> None:
        assert self._caller.ask("DELETE", self.path).status == 204


def until(is_so: Any, what: str, at_most: float = 20.0) -> None:
    """Wait for something that can only be asked about."""
    end = time.monotonic() + at_most
    while not is_so():
        assert time.monotonic() < end, f"not within {at_most} s: {what}"
        time.sleep(0.02)
