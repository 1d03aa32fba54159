"""Login over HTTP, without security."""

from collections.abc import Iterator

import pytest
from tests.web.caller import Caller

from dragoman.testing.harness import LocalBroker


@pytest.fixture(scope="module")
def plain() -> Iterator[Caller]:
    """A web application without security."""
    with LocalBroker("http", ledger={"seal": False}) as broker:
        yield Caller(broker.endpoints["http"])


def test_the_form_is_a_page_that_runs_nothing(plain: Caller) -> None:
    page = plain.get("/login")
    assert page.headers["content-type"].startswith("text/html")
    assert b'type="password"' in page.body
    assert "script-src" not in page.headers["content-security-policy"]
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_without_security_there_is_no_token_to_log_in_with(plain: Caller) -> None:
    assert plain.post("/login", {"token": "any"}).status == 401
    form = plain.ask(
        *("POST", "/login"),
        raw=b"token=any",
        Content_Type="application/x-www-form-urlencoded",
    )
    assert form.status == 401


def test_what_is_sent_to_log_in_is_small(plain: Caller) -> None:
    assert plain.post("/login", {"token": "x" * 10_000}).status == 413
    assert plain.post("/login", {"other": "x"}).status == 400


@pytest.mark.process
def test_without_security_everybody_is_nobody(plain: Caller) -> None:
    assert plain.get("/session").json == {"principal": ""}
