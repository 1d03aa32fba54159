"""A real Chromium on the dashboard of a real broker.

Every page is watched: a request that leaves the origin, a violation of the policy or an error in a
script fails the test that caused it.
"""

import shutil
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from dragoman import Retry, Worker
from dragoman.testing.harness import LocalBroker

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run"
    " --disable-background-networking --disable-component-update --disable-sync"
)
MISSING = "no Chromium; as root: apt-get install -y chromium"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of this folder, with the command to run, where there is no Chromium."""
    for item in items:
        if item.path.parent.name == "browser" and not CHROMIUM:
            item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Start Chromium for one module: while Playwright runs, `asyncio.run` cannot."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        yield browser
        browser.close()


class Watch:
    """What a page did that it must not do."""

    def __init__(self, page: Page) -> None:
        self.foreign: list[str] = []
        self.errors: list[str] = []
        self.violations: list[str] = []
        page.on("request", lambda request: self._requested(page, request.url))
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def _requested(self, page: Page, url: str) -> None:
        own = urlsplit(page.url).netloc
        if own and urlsplit(url).netloc not in ("", own) and not url.startswith("data:"):
            self.foreign.append(url)

    def _said(self, message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text:
            self.violations.append(message.text)


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(20_000)
    watch = Watch(page)
    yield page
    context.close()
    assert (watch.foreign, watch.violations, watch.errors) == ([], [], [])


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker("nfp", "http", ledger={"seal": False}) as broker:
        yield broker


@pytest.fixture(scope="module")
def stop() -> threading.Event:
    return threading.Event()


@pytest.fixture(scope="module")
def network(broker: LocalBroker, stop: threading.Event) -> Iterator[Worker]:
    worker = network_worker(broker.url("nfp"), stop, log_lines=True)
    with worker:
        yield worker
        stop.set()


def network_worker(url: str, stop: threading.Event, **more: Any) -> Worker:
    worker = Worker(url, service="network", name="edge-1", concurrency=4, **more)

    @worker.task
    def ping(host: str, count: int = 3) -> dict[str, Any]:
        """Ping a host."""
        return {"host": host, "replies": count}

    @worker.task
    def fail(host: str) -> None:
        """Fail as a host that is away does."""
        raise ConnectionError(f"{host}: no route")

    @worker.task
    def wait(job: Any) -> str:
        """Wait until somebody cancels."""
        while not job.is_cancelled and not stop.is_set():
            stop.wait(0.02)
        return "stopped"

    @worker.task
    def count(job: Any) -> str:
        """Report some steps."""
        for number in range(1, 4):
            job.progress(f"step {number}")
            stop.wait(0.1)
        return "done"

    @worker.task
    def talk() -> str:
        """Print what it does."""
        print("reads <b>the file</b>")
        stop.wait(0.5)
        print("found 3 rows")
        return "done"

    @worker.task(retries=Retry(1, backoff=0.01), retry_on=(ConnectionError,))
    def doomed(host: str) -> None:
        """Fail however often it is tried."""
        raise ConnectionError(f"{host}: no route")

    @worker.task
    def confirm(change: str, job: Any) -> str:
        """Ask for approval."""
        return f"{change}: {job.ask(f'Apply {change}?')}"

    return worker
