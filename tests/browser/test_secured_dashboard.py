"""The dashboard of a secured broker: login, roles, keys, and a restart under an open page."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from dragoman.security.keys import KeyState
from dragoman.security.registry import KeyRegistry
from dragoman.testing.harness import LocalBroker

pytestmark = pytest.mark.interop

NOW = 1_700_000_000.0
KEY = "curve:" + "ab" * 20


@pytest.fixture
def registry(tmp_path: Path) -> KeyRegistry:
    return KeyRegistry.open(tmp_path / "registry.json")


@pytest.fixture
def tokens(registry: KeyRegistry) -> dict[str, str]:
    roles = {"anna": "admin", "vera": "viewer", "otto": "submitter"}
    return {n: registry.new_token(n, now=NOW, roles=(role,)) for n, role in roles.items()}


@pytest.fixture
def secured(registry: KeyRegistry, tokens: dict[str, str]) -> Iterator[LocalBroker]:
    security = {"enabled": True, "registry": registry.path}
    with LocalBroker("http", security=security, ledger={"seal": False}) as broker:
        yield broker


def log_in(page: Page, broker: LocalBroker, token: str) -> None:
    page.goto(broker.endpoints["http"])
    expect(page).to_have_url(re.compile(r"/login(\?next=.*)?$"))
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()


def test_a_token_logs_in_and_a_wrong_one_is_told_so(
    page: Page, secured: LocalBroker, tokens: dict[str, str]
) -> None:
    log_in(page, secured, "drgt-wrong")
    expect(page.get_by_role("alert")).to_contain_text("not valid")
    page.get_by_label("Token").fill(tokens["anna"])
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("main h1")).to_have_text("Overview")
    expect(page.locator("#who")).to_contain_text("anna")
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(re.compile("/login$"))


def test_the_login_leads_back_to_the_page_that_asked_for_it(
    page: Page, secured: LocalBroker, tokens: dict[str, str]
) -> None:
    page.goto(secured.endpoints["http"] + "/#/workers")
    page.get_by_label("Token").fill(tokens["anna"])
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("main h1")).to_have_text("Workers")
    expect(page).to_have_url(re.compile("/#/workers$"))


def test_an_administrator_approves_a_key_and_tries_the_policy(
    page: Page, secured: LocalBroker, tokens: dict[str, str], registry: KeyRegistry
) -> None:
    registry.add(KEY, now=NOW, state=KeyState.PENDING, note="connected")
    log_in(page, secured, tokens["anna"])
    page.get_by_role("link", name="Security").click()
    row = page.locator("#keys tr", has_text="pending")
    row.get_by_role("button", name="Approve").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Principal").fill("edge")
    dialog.get_by_label("Role").select_option("worker")
    dialog.get_by_role("button", name="Approve").click()
    expect(page.locator("#keys tr", has_text="edge")).to_contain_text("allowed")
    page.get_by_label("May this principal").fill("edge")
    page.get_by_label("do this").select_option("register")
    page.get_by_role("button", name="Ask the policy").click()
    expect(page.locator("#decision")).to_contain_text("role worker")


def test_without_permission_a_page_says_so_and_offers_no_actions(
    page: Page, secured: LocalBroker, tokens: dict[str, str]
) -> None:
    log_in(page, secured, tokens["vera"])
    expect(page.locator("main h1")).to_have_text("Overview")
    expect(page.get_by_role("link", name="Audit")).to_have_count(0)
    page.goto(secured.endpoints["http"] + "/#/audit")
    expect(page.get_by_text("You may not see this")).to_be_visible()
    page.goto(secured.endpoints["http"] + "/#/security")
    expect(page.get_by_role("button", name="Revoke")).to_have_count(0)


def test_a_principal_that_may_see_nothing_is_told_so(
    page: Page, secured: LocalBroker, tokens: dict[str, str]
) -> None:
    log_in(page, secured, tokens["otto"])
    expect(page.get_by_text("You may not see this")).to_be_visible()


def test_a_restart_of_the_broker_shows_and_heals(page: Page, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with LocalBroker("http", data=data, ledger={"seal": False}) as broker:
        endpoint = broker.endpoints["http"]
        page.goto(endpoint + "/#/services")
        expect(page.get_by_text("No services yet")).to_be_visible()
        expect(page.locator("#health")).to_contain_text("Well")
    expect(page.locator("#banner")).to_contain_text("does not answer")
    again = {"http": endpoint.replace("http://", "tcp://")}
    with LocalBroker("http", data=data, listen=again, ledger={"seal": False}):
        expect(page.locator("#banner")).to_contain_text("answers again")
        expect(page.get_by_text("No services yet")).to_be_visible()
