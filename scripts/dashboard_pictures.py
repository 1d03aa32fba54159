"""Take the pictures of the dashboard: `python scripts/dashboard_pictures.py docs/images`.

A broker in this process gets workers of six dialects and some minutes of work: jobs that succeed,
fail, wait, ask and die, schedules, resources and files. Chromium then opens every page, light and
dark. A secured broker beside it shows the login and the keys.
"""

import base64
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from dragoman import Client, Worker
from dragoman.security.keys import KeyState
from dragoman.security.passwords import hash_password
from dragoman.security.registry import KeyRegistry
from dragoman.testing.harness import LocalBroker

LINKS: Final = ("nfp", "dcp", "zss", "zss_backend", "memo", "nats", "http", "mdp")
_WEBP: Final = """async (source) => {
  const image = new Image();
  image.src = source;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height];
  canvas.getContext("2d").drawImage(image, 0, 0);
  return canvas.toDataURL("image/webp", 0.8);
}"""
SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
WINDOW: Final[ViewportSize] = {"width": 1280, "height": 800}
PHONE: Final[ViewportSize] = {"width": 390, "height": 844}
FLAGS: Final = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
PAGES: Final = (
    *("jobs", "services", "schedules", "dead", "workers", "nodes", "clients", "resources"),
    *("bridges", "events", "audit", "reports", "inventory", "files", "cluster"),
)
SECONDS: Final = 15.0


def network_worker(url: str, name: str, stop: threading.Event, **more: Any) -> Worker:
    """Return a worker with tasks of several kinds."""
    worker = Worker(url, service="network", name=name, **more)

    @worker.task
    def ping(host: str, count: int = 3) -> dict[str, Any]:
        """Ping a host and count the replies."""
        time.sleep(0.01 + 0.02 * count)
        return {"host": host, "sent": count, "replies": count, "loss": 0.0}

    @worker.task
    def show(host: str, command: str, as_json: bool = False) -> dict[str, Any]:
        """Run a command that shows something on a device."""
        return {"host": host, "command": command, "lines": ["GigabitEthernet0/0 up", "Gi0/1 down"]}

    @worker.task
    def reload(host: str) -> None:
        """Reload a device that may be away."""
        raise ConnectionError(f"{host}: no route to host")

    @worker.task
    def audit(site: str, job: Any) -> str:
        """Look at every device of a site; takes a while."""
        log = job.progress
        for number in range(10_000):
            if stop.wait(0.5) or job.is_cancelled:
                break
            log({"site": site, "devices": number, "last": f"r{number % 7}"})
            print(f"r{number % 7}: configuration is as planned, {number} devices so far")
        return "stopped"

    @worker.task
    def change(host: str, lines: list[str], job: Any) -> str:
        """Change a device after somebody agreed."""
        return f"{host}: {job.ask(f'Apply {len(lines)} lines to {host}?')}"

    return worker


def simple_worker(url: str, service: str, name: str, seconds: float, **more: Any) -> Worker:
    """Return a worker with one task."""
    worker = Worker(url, service=service, name=name, **more)

    @worker.task
    def run(item: str = "") -> dict[str, Any]:
        """Work on one item."""
        time.sleep(seconds)
        return {"item": item, "by": name}

    return worker


def workers(broker: LocalBroker, stop: threading.Event) -> Iterator[Worker]:
    """Yield a worker of each dialect."""

    def url(dialect: str) -> str:
        return broker.url(dialect, for_workers=True)

    devices = [f"r{number}" for number in range(1, 8)]
    labels = {"site": "vienna", "zone": "dmz"}
    yield network_worker(
        url("nfp"),
        "edge-1",
        stop,
        concurrency=4,
        labels=labels,
        resources=devices[:4],
        log_lines=True,
    )
    yield network_worker(url("http"), "edge-2", stop, concurrency=4, resources=devices[4:])
    yield simple_worker(url("zss"), "billing", "ledger-1", 0.03)
    yield simple_worker(url("dcp"), "render", "gpu-1", 0.12)
    yield simple_worker(url("dcp"), "render", "gpu-2", 0.12)
    yield simple_worker(url("memo"), "mail", "smtp-1", 0.02)
    yield simple_worker(url("mdp"), "echo", "echo-1", 0.005)
    yield simple_worker(url("ncl"), "batch", "node-1", 0.2)


def work(broker: LocalBroker, stop: threading.Event) -> None:
    """Submit jobs of several clients until told to stop."""
    with ExitStack() as stack:
        clients = {
            name: stack.enter_context(Client(broker.url(dialect), name=name))
            for name, dialect in {
                "planner": "nfp",
                "web-shop": "zss",
                "scripts": "dcp",
                "portal": "http",
            }.items()
        }
        number = 0
        while not stop.wait(0.05):
            number += 1
            host = f"r{number % 7 + 1}"
            clients["planner"].submit("network", "ping", host=host, count=number % 5 + 1)
            clients["portal"].submit("billing", "run", item=f"invoice {number}")
            if number % 3 == 0:
                clients["web-shop"].submit("mail", "run", item=f"order {number}")
                clients["scripts"].submit("render", "run", item=f"frame {number}")
            if number % 8 == 0:
                clients["portal"].submit("batch", "run", item=f"chunk {number}")
                clients["planner"].submit("echo", "run", item="hello")
            if number % 11 == 0:
                clients["portal"].submit("network", "reload", host=host)


@contextmanager
def world(folder: Path) -> Iterator[tuple[LocalBroker, dict[str, str]]]:
    """Run a broker with workers and work; yield it with some jobs by name."""
    stop = threading.Event()
    shared = folder.parent / "shared"
    (shared / "images").mkdir(parents=True)
    (shared / "topology.yaml").write_text("sites: [vienna, graz]\n")
    (folder / "reports").mkdir(parents=True)
    (folder / "reports" / "week-46.html").write_text("<h1>Week 46</h1>")
    network = {"retries": 1, "tasks": {"audit": {"concurrency": 4}}}
    settings: dict[str, Any] = {
        "services": {"render": {"concurrency": 2, "rate": 5}, "network": network},
        "inventory": {"edge-*": {"site": "vienna", "ntp": ["10.0.0.1"]}},
        "files": {"roots": {"": str(shared)}, "writable": [""]},
    }
    with LocalBroker(*LINKS, data=folder, **settings) as broker, ExitStack() as stack:
        for worker in workers(broker, stop):
            stack.enter_context(worker)
        thread = threading.Thread(target=work, args=(broker, stop), daemon=True)
        thread.start()
        client = stack.enter_context(Client(broker.url("http"), name="portal"))
        jobs = special_jobs(client)
        time.sleep(SECONDS)
        jobs["failed"] = latest(broker, "failed")
        yield broker, jobs
        stop.set()


def special_jobs(client: Client) -> dict[str, str]:
    """Submit a job that runs on, one that asks and one that waits; add schedules."""
    long = client.submit("network", "audit", site="vienna")
    asks = client.submit("network", "change", host="r3", lines=["ntp server 10.0.0.1"])
    client.submit("archive", "store", path="/srv/a.tar")
    broker = "mmi.service.broker"
    client.call(broker, "drain_worker", "gpu-2", "gets a new driver")
    for name, seconds in {"nightly-audit": 86400, "ping-core": 10}.items():
        members = {
            "name": name,
            "service": "network",
            "task": "ping",
            "kwargs": {"host": "r1"},
            "every": seconds,
        }
        client.call(broker, "add_schedule", members=members)
    return {"running": long.id, "asks": asks.id}


def latest(broker: LocalBroker, state: str) -> str:
    """Return the newest job in a state."""
    url = f"{broker.endpoints['http']}/v1/history/jobs?state={state}&limit=1"
    with urllib.request.urlopen(url) as answer:
        return str(msgspec.json.decode(answer.read())["rows"][0]["job"])


def shrink(browser: Browser, folder: Path) -> None:
    """Write each picture as WebP, which is a fifth of the size."""
    page = browser.new_page()
    for path in sorted(folder.glob("*.png")):
        image = base64.b64encode(path.read_bytes()).decode()
        found = page.evaluate(_WEBP, f"data:image/png;base64,{image}").partition(",")[2]
        path.with_suffix(".webp").write_bytes(base64.b64decode(found))
        path.unlink()


def shoot(page: Page, url: str, out: Path, name: str, wait: str = "") -> None:
    """Take a picture of one page."""
    page.goto(url)
    page.locator("main h1").first.wait_for()
    expect(page.locator("main [aria-busy]")).to_have_count(0)
    if wait:
        page.locator(wait).first.wait_for()
    page.wait_for_timeout(600)
    page.screenshot(path=out / f"{name}.png")


def shoot_all(page: Page, base: str, jobs: dict[str, str], out: Path, suffix: str) -> None:
    """Take a picture of every page."""
    shoot(page, f"{base}/#/", out, f"overview-{suffix}")
    for path in PAGES:
        query = "?after=0" if path == "events" else ""
        shoot(page, f"{base}/#/{path}{query}", out, f"{path}-{suffix}")
    for name, job in jobs.items():
        shoot(page, f"{base}/#/job/{job}", out, f"job-{name}-{suffix}")
    shoot(page, f"{base}/#/call/network?task=ping", out, f"call-{suffix}")


def shoot_secured(page: Page, folder: Path, out: Path, suffix: str) -> None:
    """Take pictures of the login and the keys of a secured broker."""
    folder.mkdir()
    registry = KeyRegistry.open(folder / "registry.json")
    now = time.time()
    token = registry.new_token("anna", now=now, roles=("admin",))
    registry.new_token("otto", now=now, roles=("submitter",))
    registry.add("curve:" + "ab" * 20, now=now, state=KeyState.PENDING, note="connected over nfp")
    registry.set_password("anna", hash_password("correct horse battery", bytes(16)), now=now)
    security = {"enabled": True, "registry": registry.path}
    with LocalBroker("http", data=folder / "data", security=security) as broker:
        base = broker.endpoints["http"]
        page.goto(base)
        page.get_by_label("Token").wait_for()
        page.screenshot(path=out / f"login-{suffix}.png")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Log in with it").click()
        page.locator("main h1").wait_for()
        shoot(page, f"{base}/#/security", out, f"security-{suffix}", "#keys table")
        shoot(page, f"{base}/#/audit", out, f"audit-secured-{suffix}")


def main() -> None:
    """Take all pictures."""
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        launch = playwright.chromium.launch
        browser = launch(executable_path="/usr/bin/chromium", args=FLAGS)
        with world(Path(name) / "data") as (broker, jobs):
            base = broker.endpoints["http"]
            for scheme in SCHEMES:
                context = browser.new_context(viewport=WINDOW, color_scheme=scheme)
                page = context.new_page()
                shoot_all(page, base, jobs, out, scheme)
                context.close()
            context = browser.new_context(viewport=PHONE, device_scale_factor=1)
            shoot_all(context.new_page(), base, jobs, out, "phone")
            context.close()
        for scheme in SCHEMES:
            context = browser.new_context(viewport=WINDOW, color_scheme=scheme)
            shoot_secured(context.new_page(), Path(name) / f"secured-{scheme}", out, scheme)
            context.close()
        shrink(browser, out)
        browser.close()


if __name__ == "__main__":
    main()
