"""How much code one request runs in the broker: calls, functions, files and changes of layer.

One broker in a thread of this process; only that thread is traced, so the peers do not count. Each
walk is made several times and the smallest count is kept, because heartbeats add calls. A change of
layer is a call into another package of `dragoman` than the caller's; `model` has only values and
does not count as a layer. These figures do not depend on the machine.
"""

import http.client
import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import dragoman
from dragoman import Client, Worker
from dragoman.testing.harness import LocalBroker

Row: TypeAlias = tuple[str, float, str]

ROOT = str(Path(dragoman.__file__).parent) + "/"
WALKS = 7


class Trace:
    """Counts the calls of one thread, as its profile function."""

    def __init__(self) -> None:
        self.calls = 0
        self.changes = 0
        self.functions: set[tuple[str, int]] = set()

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        path = frame.f_code.co_filename
        if event != "call" or not path.startswith(ROOT):
            return
        self.calls += 1
        self.functions.add((path, frame.f_code.co_firstlineno))
        caller = _caller(frame)
        self.changes += caller is not None and _layer(caller) != _layer(path) != "model"

    @property
    def files(self) -> int:
        """How many source files it ran through."""
        return len({path for path, _ in self.functions})


def _caller(frame: FrameType) -> str | None:
    """Return the file of the nearest caller that is ours and no value."""
    above = frame.f_back
    while above is not None:
        path = above.f_code.co_filename
        if path.startswith(ROOT) and _layer(path) != "model":
            return path
        above = above.f_back
    return None


def _layer(path: str) -> str:
    return path.removeprefix(ROOT).partition("/")[0]


def walk(broker: LocalBroker, request: Callable[[], object]) -> Trace:
    """Make a request several times; return the trace with the fewest calls."""
    for _ in range(3):
        request()
    return min((_traced(broker, request) for _ in range(WALKS)), key=lambda trace: trace.calls)


def _traced(broker: LocalBroker, request: Callable[[], object]) -> Trace:
    trace = Trace()
    _in_broker(broker, lambda: sys.setprofile(trace))
    request()
    _in_broker(broker, lambda: sys.setprofile(None))
    return trace


def _in_broker(broker: LocalBroker, act: Callable[[], None]) -> None:
    assert broker._loop is not None
    done = Event()

    def both() -> None:
        act()
        done.set()

    broker._loop.call_soon_threadsafe(both)
    done.wait()


class HttpCaller:
    """One connection that is kept, without the SDK."""

    def __init__(self, base: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(base).netloc, timeout=30)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Make one request; return its JSON."""
        headers = {"Content-Type": "application/json", "Dragoman-Client": "bench"}
        self._connection.request("POST", path, json.dumps(body), headers)
        response = self._connection.getresponse()
        found: dict[str, Any] = json.loads(response.read())
        assert response.status in (200, 202), found
        return found


def run() -> list[Row]:
    """Trace every walk."""
    with ExitStack() as stack:
        broker = stack.enter_context(
            LocalBroker("nfp", "memo", "nats", "http", ledger={"seal": False})
        )
        for dialect in ("memo", "ncl", "http"):
            url = broker.url(dialect, for_workers=True)
            worker = Worker(url, service=f"bench-{dialect}")
            worker.task(echo)
            stack.enter_context(worker)
        client = stack.enter_context(Client(broker.url("nfp")))
        caller = HttpCaller(broker.endpoints["http"])
        for dialect in ("memo", "ncl", "http"):
            assert client.call(f"bench-{dialect}", "echo", value=1, timeout=30) == 1

        def http_call(service: str) -> dict[str, Any]:
            body = {"service": service, "task": "echo", "kwargs": {"value": 1}}
            return caller.post("/v1/call", body)

        walks: dict[str, Callable[[], object]] = {
            "nfp client, memo worker": lambda: client.call("bench-memo", "echo", value=1),
            "http /v1/call, ncl worker": lambda: http_call("bench-ncl"),
            "http /v1/call, memo worker": lambda: http_call("bench-memo"),
            "http /v1/call, http worker": lambda: http_call("bench-http"),
        }
        return [row for name, act in walks.items() for row in _rows(name, walk(broker, act))]


def _rows(name: str, trace: Trace) -> list[Row]:
    return [
        (f"walk: {name}", trace.calls, "calls"),
        (f"walk: {name}", trace.changes, "changes of layer"),
        (f"walk: {name}", len(trace.functions), "functions"),
        (f"walk: {name}", trace.files, "files"),
    ]


def echo(value: Any) -> Any:
    """Return the argument."""
    return value
