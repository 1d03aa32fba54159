"""Login over HTTP, without security."""

from collections.abc import Iterator

import pytest
from tests.web.caller import Caller

from dragoman.testing.harness import LocalBroker
from dragoman.web.login import safe_page


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


@pytest.mark.parametrize("page", ["/", "/?job=1", "/dashboard/x", "/#/jobs/a-1?state=queued"])
def test_a_page_of_the_broker_may_follow_the_login(page: str) -> None:
    assert safe_page(page) == page


@pytest.mark.parametrize(
    "page",
    [
        "",
        "jobs",
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "/\t/evil.example",
        "/x\r\nSet-Cookie: a=b",
        '/"><script>',
        "/" + "x" * 2000,
        "/\u2028x",
    ],
)
def test_another_site_never_follows_the_login(page: str) -> None:
    assert safe_page(page) == "/"


def test_the_form_keeps_the_page_that_follows(plain: Caller) -> None:
    kept = plain.get("/login?next=%2F%23%2Fjobs%26a").body
    assert b'name="next" value="/#/jobs&amp;a"' in kept
    assert b'name="next"' not in plain.get("/login?next=%2F%2Fevil.example").body


def test_a_form_without_an_origin_of_its_own_is_refused(plain: Caller) -> None:
    assert plain.ask("POST", "/login", raw=b"{}", Origin="null").status == 403


def test_what_is_sent_to_log_in_is_small(plain: Caller) -> None:
    assert plain.post("/login", {"token": "x" * 10_000}).status == 413
    assert plain.post("/login", {"other": "x"}).status == 400


@pytest.mark.process
def test_without_security_everybody_is_nobody(plain: Caller) -> None:
    assert plain.get("/session").json["principal"] == ""
