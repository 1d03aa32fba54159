"""POST /v1/enrol: open to everybody, and the token says who may."""

import asyncio
from typing import Any

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import Message

from dragoman.web.enrolment import EnrolmentRoutes
from dragoman.web.identity import Checks
from dragoman.web.problems import Problem, on_problem


def let_in(token: str, key: str, name: str) -> str:
    if token != "good":
        raise ValueError("no such enrolment token")
    return name or key


CHECKS = Checks(lambda secret: None, lambda key: False, enrol=let_in)


def post(checks: Checks | None, body: bytes, kind: bytes = b"application/json") -> tuple[int, Any]:
    """Make one request of the route alone."""
    app = Starlette(
        routes=[Route("/v1/enrol", EnrolmentRoutes(checks).enrol, methods=["POST"])],
        exception_handlers={Problem: on_problem},
    )
    said: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        said.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/enrol",
        "query_string": b"",
        "headers": [(b"content-type", kind)],
        "http_version": "1.1",
        "scheme": "https",
        "root_path": "",
    }
    asyncio.run(app(scope, receive, send))
    return said[0]["status"], msgspec.json.decode(said[1]["body"])


def test_a_good_token_is_traded_for_a_principal() -> None:
    said = b'{"token": "good", "key": "curve:x", "name": "edge-1"}'
    assert post(CHECKS, said) == (201, {"principal": "edge-1"})


def test_a_bad_token_is_refused_and_not_repeated() -> None:
    status, problem = post(CHECKS, b'{"token": "bad-secret", "key": "k"}')
    assert (status, problem["code"]) == (403, "denied")
    assert "bad-secret" not in str(problem)


@pytest.mark.parametrize("checks", [None, Checks(lambda secret: None, lambda key: False)])
def test_where_nobody_is_let_in_there_is_no_such_place(checks: Checks | None) -> None:
    assert post(checks, b'{"token": "good", "key": "k"}')[0] == 404


def test_other_bodies_are_refused() -> None:
    assert post(CHECKS, b"token=good", b"text/plain")[0] == 415
    assert post(CHECKS, b'{"token": "good"}')[0] == 400
