"""The application as a whole: what the framework refuses, and what is our own fault."""

import asyncio
import contextlib
import json
from typing import Any

import pytest

from dragoman.dialects.http.settings import HttpSettings
from dragoman.web.app import Application, HostMiddleware
from dragoman.web.broker_connection import WebBrokerConnection


def ask(method: str, path: str, app: Any = None, **headers: str) -> tuple[int, dict[str, Any]]:
    """Make a request of an application that has no broker."""
    app = app or Application(WebBrokerConnection(), HttpSettings(), lambda: "id").asgi
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8420),
    }
    # An error of ours is raised once more, for the server's log, after it was answered.
    with contextlib.suppress(AttributeError):
        asyncio.run(app(scope, receive, send))
    body = b"".join(m.get("body", b"") for m in sent[1:])
    return sent[0]["status"], json.loads(body)


def test_what_leads_nowhere_is_a_problem_that_names_the_way() -> None:
    status, problem = ask("GET", "/nowhere")
    assert (status, problem["code"]) == (404, "not_found")
    assert "/docs" in problem["detail"]


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/jobs", "GET, HEAD, POST"),
        ("/v1/jobs/a/b", "DELETE, GET, HEAD"),
        ("/v1/jobs/a/b/result", "DELETE, GET, HEAD"),
        ("/v1/workers", "GET, HEAD, POST"),
        ("/login", "GET, HEAD, POST"),
    ],
)
def test_a_wrong_method_is_told_all_methods_of_the_path(path: str, methods: str) -> None:
    status, problem = ask("PUT", path)
    assert (status, problem["code"]) == (405, "method_not_allowed")
    assert problem["detail"] == f"{path} takes {methods}, not PUT"


def test_a_part_of_a_job_is_never_taken_for_a_job() -> None:
    assert ask("DELETE", "/v1/jobs/a/why")[0] == 405


def test_before_there_is_a_broker_it_is_starting() -> None:
    for path in ("/readyz", "/metrics", "/v1/services"):
        status, problem = ask("GET", path)
        assert (status, problem["code"]) == (503, "starting")
    assert ask("GET", "/healthz") == (200, {"status": "ok"})
    assert ask("GET", "/openapi.json")[1]["openapi"] == "3.1.0"


def test_an_error_of_our_own_is_a_problem_without_our_secrets() -> None:
    application = Application(WebBrokerConnection(), HttpSettings(), lambda: "id")
    application.view_routes.view = object()  # type: ignore[assignment]
    status, problem = ask("GET", "/v1/services", application.asgi)
    assert (status, problem["code"]) == (500, "internal")
    assert "attribute" not in problem["detail"]
    assert application.internal_errors == 1


def test_only_known_hosts_pass() -> None:
    inner = Application(WebBrokerConnection(), HttpSettings(), lambda: "id").asgi
    app = HostMiddleware(inner, frozenset({"localhost"}))
    assert ask("GET", "/healthz", app, host="localhost:1")[0] == 200
    assert ask("GET", "/healthz", app, host="evil.example")[0] == 421
    assert ask("GET", "/healthz", app)[0] == 421
