"""A secured broker over real sockets: admission, revocation, and no leaked secrets."""

import io
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog
from tests.canaries import is_holder

from dragoman import Client, Worker
from dragoman.cli.exit_codes import run_to_exit_code
from dragoman.cli.main import app
from dragoman.ledger.audit import audit
from dragoman.sdk.credentials import read_credentials
from dragoman.sdk.errors import Denied, DragomanError, Refused
from dragoman.security.policy import Policy
from dragoman.security.registry import KeyRegistry
from dragoman.testing.harness import LocalBroker

pytestmark = pytest.mark.interop

DIALECTS = ("nfp", "dcp", "zss", "memo", "http", "mdp")
MMI = "mmi.service.broker"


class Site:
    """A folder that `dragoman init` made, and a broker on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        assert dragoman("init", str(folder)) == 0
        self.config = str(folder / "dragoman.toml")
        self.registry = KeyRegistry.open(folder / "data" / "registry.json")

    def key(self, name: str, role: str) -> Path:
        """Allow a principal."""
        path = self.folder / f"{name}.key"
        words = ("keys", "new", name, "--role", role, "--out", str(path), "--config", self.config)
        assert dragoman(*words) == 0
        return path

    def broker(self) -> LocalBroker:
        from dragoman.cli.broker_files import find_settings

        settings = find_settings(Path(self.config), None)
        return LocalBroker(
            *DIALECTS,
            *("zss_backend", "nats"),
            data=settings.data,
            security=settings.security.model_dump(),
            credentials=settings.credentials.model_dump(),
        )


def dragoman(*words: str) -> int:
    return run_to_exit_code(lambda: app(list(words)))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def broker(site: Site) -> Iterator[LocalBroker]:
    with site.broker() as running:
        yield running


def until(condition: Callable[[], object], at_most: float) -> float:
    """Wait for something that another thread does; return how long it took."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > at_most:
            raise AssertionError(f"not within {at_most:g} s")
        time.sleep(0.01)
    return time.monotonic() - began


def workers(broker: LocalBroker) -> set[str]:
    loop = broker.server.loop
    assert loop is not None
    found = loop.broker.state.registry.workers.values()
    return {w.principal for w in found if not w.is_builtin}


def is_dispatched(broker: LocalBroker, service: str, principal: str) -> bool:
    loop = broker.server.loop
    assert loop is not None
    kept = [r for r in loop.ledger.read() if r.service == service]
    jobs = {r.job for r in kept if r.kind == "submitted" and r.principal == principal}
    return any(r.kind == "dispatched" and r.job in jobs for r in kept)


def lifting(broker: LocalBroker, dialect: str, name: str, key: Path | None) -> Worker:
    is_nats = dialect == "ncl"
    nats = broker.endpoints["nats"].replace("tcp://", "ncl://")
    url = nats if is_nats else broker.url(dialect, for_workers=True)
    worker = Worker(
        url, service=f"lift-{dialect}", name=name, own_process_beats=False, credentials=key
    )
    worker.task(lambda x: x + 1, name="inc")
    return worker


@pytest.mark.parametrize("dialect", [*DIALECTS, "ncl"])
def test_an_allowed_peer_works_and_a_revoked_one_is_gone_within_a_second(
    site: Site, broker: LocalBroker, dialect: str
) -> None:
    name, client = f"w-{dialect}", f"sue-{dialect}"
    keys = site.key(name, "worker"), site.key(client, "submitter")
    service = f"lift-{dialect}"
    with (
        lifting(broker, dialect, name, keys[0]),
        # NCL has workers only.
        Client(broker.url("nfp" if dialect == "ncl" else dialect), credentials=keys[1]) as sue,
    ):
        until(lambda: name in workers(broker), 20)
        assert sue.call(service, "inc", x=1, timeout=20) == 2
        site.registry.revoke(name)
        assert until(lambda: name not in workers(broker), 5) < 1.5
        site.registry.revoke(client)
        time.sleep(1.0)
        with pytest.raises((DragomanError, TimeoutError, OSError)):
            sue.call(service, "inc", x=1, timeout=2)


@pytest.mark.parametrize("dialect", ["nfp", "dcp", "zss", "http", "mdp"])
def test_a_denied_peer_gets_the_reason(site: Site, broker: LocalBroker, dialect: str) -> None:
    key = site.key(f"vera-{dialect}", "viewer")
    with (
        Client(broker.url(dialect), credentials=key) as vera,
        pytest.raises(Denied, match="submit"),
    ):
        vera.call("lift", "inc", x=1, timeout=20)


def open_job(site: Site, broker: LocalBroker, dialect: str) -> tuple[Worker, str]:
    """Return a worker whose task `hold` waits, and its service."""
    name = f"holder-{dialect}"
    worker = lifting(broker, dialect, name, site.key(name, "worker"))
    worker.task(lambda: released.wait(30), name="hold")
    return worker, f"lift-{dialect}"


released = threading.Event()


@pytest.mark.parametrize("dialect", ["nfp", "dcp", "zss", "http", "mdp"])
def test_a_denied_cancel_and_a_denied_result_raise(
    site: Site, broker: LocalBroker, dialect: str
) -> None:
    keys = [site.key(f"{name}-{dialect}", "submitter") for name in ("owner", "other")]
    worker, service = open_job(site, broker, dialect)
    url = broker.url(dialect)
    with (
        worker,
        Client(url, f"owner-{dialect}", credentials=keys[0]) as owner,
        Client(url, f"other-{dialect}", credentials=keys[1]) as other,
    ):
        job = owner.options(timeout=30).submit(service, "hold")
        next(iter(job.events()))
        for question in (other.job(job.id).cancel, other.job(job.id).result):
            with pytest.raises(Denied, match="others"):
                question(timeout=10)
        released.set()
        assert job.result(timeout=20) is True
        released.clear()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_client_that_is_revoked_during_a_call_is_refused(
    site: Site, broker: LocalBroker, dialect: str
) -> None:
    name = f"short-{dialect}"
    key = site.key(name, "submitter")
    worker, service = open_job(site, broker, dialect)
    with worker, Client(broker.url(dialect), name, credentials=key) as client:
        job = client.options(timeout=60).submit(service, "hold")
        until(lambda: is_dispatched(broker, service, name), 20)
        site.registry.revoke(name)
        with pytest.raises(Refused):
            job.result(timeout=30)
        released.set()
    released.clear()


@pytest.mark.parametrize("dialect", [*DIALECTS, "ncl"])
def test_a_refused_worker_gets_the_reason_and_waits_longer_each_time(
    site: Site, broker: LocalBroker, dialect: str
) -> None:
    name = f"intruder-{dialect}"
    worker = lifting(broker, dialect, name, site.key(name, "submitter"))
    with pytest.raises(Refused, match="register"):
        worker.start()
    loop = broker.server.loop
    assert loop is not None
    denied = [r for r in loop.ledger.read() if r.kind == "denied" and r.principal == name]
    # `start` says it after three seconds; there were hundreds of attempts before.
    assert 1 <= len(denied) <= 8


def test_a_peer_without_a_key_is_refused(broker: LocalBroker) -> None:
    with pytest.raises((DragomanError, TimeoutError, OSError)), Client(broker.url("nfp")) as nobody:
        nobody.call(MMI, "show_workers", timeout=2)


def test_no_secret_is_in_any_record_log_or_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Look for every secret in what a broker writes, says and logs, after all were in use."""
    site = Site(tmp_path)
    written = io.StringIO()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.PrintLoggerFactory(written),
    )
    try:
        keys = {name: site.key(name, role) for name, role in (("w", "worker"), ("s", "operator"))}
        invitation = site.registry.new_enrolment(now=time.time(), names=("edge-*",))
        replies = []
        with site.broker() as broker:
            with (
                lifting(broker, "nfp", "w", keys["w"]),
                Client(broker.url("nfp"), credentials=keys["s"]) as client,
                Client(broker.url("http"), credentials=keys["s"]) as caller,
            ):
                until(lambda: "w" in workers(broker), 20)
                replies.append(client.call("lift-nfp", "inc", x=1, timeout=20))
                replies.append(caller.call("lift-nfp", "inc", x=1, timeout=20))
                site.registry.enrol(
                    invitation, "tls:" + "ab" * 32, time.time(), "edge-1", policy=Policy()
                )
                asked = ("get_logs", "show_broker", "show_workers", "list_clients")
                replies += [client.call(MMI, task, timeout=20) for task in asked]
            site.registry.revoke("w")
            until(lambda: "w" not in workers(broker), 5)
    finally:
        structlog.reset_defaults()
    assert audit(tmp_path / "data" / "ledger.sqlite").is_sound
    said = capfd.readouterr()
    heaps = {
        "log": written.getvalue().encode(),
        "output": (said.out + said.err).encode(),
        "replies": repr(replies).encode(),
        **{
            str(p): p.read_bytes()
            for p in (tmp_path / "data").rglob("*")
            # nats-server has to have a key of its own.
            if p.is_file() and not (is_holder(p.name) and p.stat().st_mode & 0o077 == 0)
        },
    }
    assert b"lift-nfp" in heaps[str(tmp_path / "data" / "ledger.sqlite")], (
        "the search would find it"
    )
    for secret in secrets_of(tmp_path, [*keys.values(), tmp_path / "admin.key"], invitation):
        found = [name for name, heap in heaps.items() if secret in heap]
        assert found == [], "a secret is where it must not be"


def secrets_of(folder: Path, files: list[Path], invitation: str) -> list[bytes]:
    found = [invitation]
    for path in files:
        made = read_credentials(path)
        found += [made.secret, made.token, made.seed, *made.key.splitlines()[1:-1]]
    for name in ("authority.key", "broker-tls.key"):
        found += (folder / "keys" / name).read_text().splitlines()[1:-1]
    text = (folder / "keys" / "broker.key_secret").read_text()
    found.append(text.rpartition('secret-key = "')[2][:40])
    assert all(len(secret) > 15 for secret in found if secret)
    return [secret.encode() for secret in found if secret]
