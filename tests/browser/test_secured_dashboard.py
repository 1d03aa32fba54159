"""The dashboard of a secured broker: login, roles, keys, and a restart under an open page."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Error, Page, Request, expect

from dragoman import Client, Worker
from dragoman.sdk.credentials import Credentials
from dragoman.security.keys import KeyState
from dragoman.security.passwords import hash_password
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
    roles = {"anna": "admin", "vera": "viewer", "otto": "submitter", "wanda": "worker"}
    return {n: registry.new_token(n, now=NOW, roles=(role,)) for n, role in roles.items()}


@pytest.fixture
def secured(registry: KeyRegistry, tokens: dict[str, str], tmp_path: Path) -> Iterator[LocalBroker]:
    security = {"enabled": True, "registry": registry.path}
    (tmp_path / "read").mkdir()
    (tmp_path / "drop").mkdir()
    (tmp_path / "read" / "image.bin").write_bytes(b"image")
    roots = {"": tmp_path / "read", "drop": tmp_path / "drop"}
    files = {"roots": roots, "writable": ["drop"]}
    with LocalBroker("http", security=security, files=files, ledger={"seal": False}) as broker:
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


def test_a_name_and_a_password_log_in(
    page: Page, secured: LocalBroker, registry: KeyRegistry, canary: Callable[[str], str]
) -> None:
    secret = canary("password")
    registry.set_password(
        "paul", hash_password(secret, b"salt of the test"), now=NOW, roles=("viewer",)
    )
    page.goto(secured.endpoints["http"] + "/#/workers")
    page.get_by_label("Name").fill("paul")
    page.get_by_label("Password").fill("not the password")
    page.get_by_role("button", name="Log in", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("The name or the password is wrong")
    page.get_by_label("Name").fill("paul")
    page.get_by_label("Password").fill(secret)
    page.get_by_role("button", name="Log in", exact=True).click()
    expect(page.locator("#who")).to_contain_text("paul")
    expect(page.locator("main h1")).to_have_text("Workers")


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
        expect(page.locator("#health")).to_contain_text(re.compile("Well|Disk almost full"))
    expect(page.locator("#banner")).to_contain_text("does not answer")
    again = {"http": endpoint.replace("http://", "tcp://")}
    with LocalBroker("http", data=data, listen=again, ledger={"seal": False}):
        expect(page.locator("#banner")).to_contain_text("answers again")
        expect(page.get_by_text("No services yet")).to_be_visible()


def test_a_file_is_uploaded_and_removed_where_that_is_allowed(
    page: Page, secured: LocalBroker, tokens: dict[str, str], tmp_path: Path
) -> None:
    new, there = tmp_path / "rows.csv", tmp_path / "drop" / "rows.csv"
    new.write_bytes(b"a,b\n" * 200_000)
    log_in(page, secured, tokens["anna"])
    expect(page.locator("main h1")).to_have_text("Overview")
    page.goto(secured.endpoints["http"] + "/#/files")
    expect(page.get_by_role("link", name="image.bin")).to_be_visible()
    expect(page.get_by_role("button", name="Upload")).to_have_count(0)
    page.get_by_role("link", name="nf://drop").click()
    page.get_by_label("New file").set_input_files(new)
    page.get_by_role("button", name="Upload").click()
    page.get_by_role("dialog").get_by_role("button", name="Upload").click()
    page.get_by_role("link", name="rows.csv").click()
    assert there.read_bytes() == new.read_bytes()
    page.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_text("This folder is empty")).to_be_visible()
    assert not there.exists()


def test_a_role_that_only_fetches_files_is_offered_no_change(
    page: Page, secured: LocalBroker, tokens: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "drop" / "rows.csv").write_bytes(b"a,b")
    log_in(page, secured, tokens["otto"])
    expect(page.get_by_text("You may not see this")).to_be_visible()
    page.goto(secured.endpoints["http"] + "/#/files?url=nf://drop")
    expect(page.get_by_role("link", name="rows.csv")).to_be_visible()
    expect(page.get_by_role("button", name="Upload")).to_have_count(0)
    page.get_by_role("link", name="rows.csv").click()
    expect(page.get_by_text("size_bytes")).to_be_visible()
    expect(page.get_by_role("button", name="Remove")).to_have_count(0)


PAGES = (
    *("", "jobs", "services", "schedules", "dead", "workers", "nodes", "clients", "resources"),
    *("bridges", "cluster", "events", "audit", "security", "inventory", "files", "reports"),
)


def test_what_a_viewer_may_not_see_never_reaches_the_page(
    page: Page, secured: LocalBroker, tokens: dict[str, str]
) -> None:
    """Not in an answer of the broker, and not in an element that is hidden."""
    given, printed, returned = "input-4711", "line-4712", "result-4713"
    url = secured.url("http")
    worker = Worker(
        *(url, "vault"),
        credentials=Credentials(token=tokens["wanda"]),
        own_process_beats=False,
        log_lines=True,
    )

    @worker.task
    def keep(secret: str) -> str:
        print(printed)
        return returned

    owner = Credentials(token=tokens["anna"])
    with worker, Client(url, credentials=owner) as client:
        job = client.submit("vault", "keep", given)
        assert job.result(20) == returned
    answers: list[str] = []
    page.on("requestfinished", lambda request: answers.append(text_of(request)))
    log_in(page, secured, tokens["vera"])
    expect(page.locator("main h1")).to_have_text("Overview")
    for path in (f"job/{job.id}", *PAGES):
        page.goto(f"{secured.endpoints['http']}/#/{path}")
        expect(page.locator("main h1")).to_be_visible()
        expect(page.locator("main [aria-busy=true]")).to_have_count(0)
        if path.startswith("job/"):
            expect(page.get_by_text("Your principal may not read").first).to_be_attached()
        whole = page.content() + "".join(answers)
        assert [s for s in (given, printed, returned) if s in whole] == []
        expect(page.locator("nav [hidden]")).to_have_count(0)
    assert job.id in "".join(answers), "the answers were looked at"


def text_of(request: Request) -> str:
    """Return what the broker answered; a stream that goes on has no text yet."""
    response = request.response()
    try:
        return response.text() if response is not None else ""
    except Error:
        return ""
