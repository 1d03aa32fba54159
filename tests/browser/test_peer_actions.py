"""What an operator does with workers, services and nodes, in a real browser."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.web.caller import Caller, until

from dragoman import Worker
from dragoman.testing.harness import LocalBroker

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    ncl = {"manual_approval": True}
    with LocalBroker("nfp", "http", "nats", ncl=ncl, ledger={"seal": False}) as broker:
        yield broker


def spare(url: str, name: str) -> Worker:
    worker = Worker(url, service="spare", name=name, own_process_beats=False)
    worker.task(lambda: "done", name="do")
    return worker


def row_of(page: Page, broker: LocalBroker, path: str, name: str) -> Locator:
    page.goto(f"{broker.endpoints['http']}/#/{path}")
    row = page.locator("main tr", has_text=name)
    expect(row).to_be_visible()
    return row


def left(broker: LocalBroker) -> str:
    """Return the records of workers that left, as text."""
    found = Caller(broker.endpoints["http"]).get("/v1/history/records?kind=left&limit=50")
    return json.dumps(found.json)


def press(page: Page, row: Locator, action: str) -> None:
    """Press the button of a row, and confirm."""
    row.get_by_role("button", name=action).click()
    page.get_by_role("dialog").get_by_role("button", name=action).click()


def test_a_worker_leaves(page: Page, broker: LocalBroker) -> None:
    with spare(broker.url("nfp"), "edge-1"):
        row = row_of(page, broker, "workers", "edge-1")
        press(page, row, "Disconnect")
        expect(page.get_by_text("edge-1 is told to leave")).to_be_visible()
        until(lambda: "edge-1" in left(broker), "edge-1 left")


def test_a_worker_is_drained_and_undrained(page: Page, broker: LocalBroker) -> None:
    with spare(broker.url("nfp"), "edge-3"):
        row = row_of(page, broker, "workers", "edge-3")
        press(page, row, "Drain")
        expect(row).to_contain_text("drained")
        press(page, row, "Undrain")
        expect(row).to_contain_text("alive")


def test_a_service_is_paused_and_resumed(page: Page, broker: LocalBroker) -> None:
    with spare(broker.url("nfp"), "edge-2"):
        row = row_of(page, broker, "services", "spare")
        press(page, row, "Pause")
        expect(row.get_by_role("button", name="Resume")).to_be_visible()
        press(page, row, "Resume")
        expect(row.get_by_role("button", name="Pause")).to_be_visible()


def test_a_node_is_approved(page: Page, broker: LocalBroker) -> None:
    with spare(broker.url("ncl", for_workers=True), "node-1"):
        row = row_of(page, broker, "nodes", "node-1")
        expect(row).to_contain_text("pending")
        press(page, row, "Approve")
        expect(row).to_contain_text("approved")
