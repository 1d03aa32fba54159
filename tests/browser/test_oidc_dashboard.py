"""A person logs in at a real provider, with a real browser, and works on the dashboard."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.interop.oidc_provider import OidcProvider

from dragoman.testing.harness import LocalBroker

pytestmark = pytest.mark.interop


def test_a_person_logs_in_at_the_provider_and_gets_the_page_it_asked_for(
    chromium: Browser, tmp_path: Path
) -> None:
    (tmp_path / "policy.toml").write_text('[groups]\n"corp:staff" = ["viewer"]\n')
    # A page of its own: the fixture's fails when a request leaves the broker.
    page = chromium.new_context().new_page()
    page.set_default_timeout(20_000)
    with OidcProvider() as provider:
        security = {"enabled": True, "issuers": {"corp": provider.section()}}
        with LocalBroker("http", data=tmp_path, security=security) as broker:
            page.goto(f"{broker.endpoints['http']}/#/services")
            page.get_by_role("link", name="Log in with Corp & Co").click()
            page.locator("input[name=login]").fill("vera")
            page.locator("input[name=password]").fill("any")
            page.get_by_role("button", name="Sign-in").click()
            page.get_by_role("button", name="Continue").click()
            expect(page).to_have_url(re.compile(r"/#/services$"))
            expect(page.locator("#who")).to_contain_text("corp:vera")
            page.get_by_role("button", name="Log out").click()
            expect(page).to_have_url(re.compile("/login$"))
    page.context.close()
