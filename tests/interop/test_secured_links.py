"""A broker with security on and all its links: who is let in, and until when."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
import zmq
from tests.interop.harness import until
from tests.interop.raw_nfp import MANAGEMENT, MMI, RawClient, new_id
from tests.interop.secured import SecuredSite

from dragoman import Client, Worker
from dragoman.dialects.listeners import LISTENERS
from dragoman.dialects.ncl.dialect import NclSubjects
from dragoman.sdk.credentials import Credentials
from dragoman.sdk.errors import DragomanError
from dragoman.sdk.issuing import new_curve
from dragoman.security.registry import KeyRegistry
from dragoman.server.nodes import Nodes
from dragoman.testing.harness import LocalBroker
from dragoman.transports.nats_server import NatsServer

T = TypeVar("T")

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

LINKS = tuple(each.name for each in LISTENERS)
#: Dialects whose workers this broker knows how to let in; http has a suite of its own.
WORKERS = ("nfp", "dcp", "zss", "memo", "ncl")


class Scene:
    """A broker with a registry, and people in it."""

    def __init__(self, folder: Path) -> None:
        self.site = SecuredSite(folder / "house")
        self.registry = KeyRegistry.open(folder / "registry.json")
        self.admin = self.enrol("admin", "admin")[0]
        security = {"enabled": True, "registry": self.registry.path}
        self.broker = self.site.broker(*LINKS, security=security, ledger={"seal": False})

    def enrol(self, name: str, *roles: str) -> tuple[Credentials, tuple[str, ...]]:
        """Make credentials and let them in."""
        _, made, keys = self.site.peer(name)
        for key in keys:
            self.registry.add(key, name, now=time.time(), roles=roles)
        return made, keys

    def worker(self, dialect: str, name: str, credentials: Credentials) -> Worker:
        """Return a worker of a service that is called like its dialect, not yet started."""
        link = "nats" if dialect == "ncl" else "zss_backend" if dialect == "zss" else dialect
        url = f"{dialect}://{self.broker.endpoints[link].partition('://')[2]}"
        options = "?reconnect_interval=0.2&heartbeat_interval=1" if dialect == "ncl" else ""
        service = f"on-{dialect}"
        worker = Worker(
            url + options, service, name=name, own_process_beats=False, credentials=credentials
        )
        worker.task(_add, name="add")
        return worker

    def answers(self, service: str) -> bool:
        """Whether somebody answers for a service."""
        with Client(self.broker.url("nfp"), credentials=self.admin) as client:
            try:
                return bool(client.call(service, "add", x=2, y=3, timeout=3) == 5)
            except DragomanError:
                return False

    def known(self) -> set[str]:
        """Return the names of the principals that have workers."""
        loop = self.broker.server.loop
        assert loop is not None
        return {worker.principal for worker in list(loop.broker.state.registry.workers.values())}


def _add(x: int, y: int) -> int:
    return x + y


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    made = Scene(tmp_path_factory.mktemp("scene"))
    with made.broker:
        yield made


@pytest.mark.parametrize("dialect", WORKERS)
def test_a_worker_with_a_key_works_until_the_key_is_revoked(scene: Scene, dialect: str) -> None:
    name = f"wanda-{dialect}"
    credentials, keys = scene.enrol(name, "worker")
    worker = scene.worker(dialect, name, credentials)
    service = f"on-{dialect}"
    with worker:
        until(lambda: scene.answers(service), f"the worker of {dialect} answers", 30)
        for key in keys:
            scene.registry.revoke(key)
        begun = time.monotonic()
        until(lambda: name not in scene.known(), f"the worker of {dialect} is gone", 5)
        # Within a second; the rest is for a machine with much else to do.
        assert time.monotonic() - begun < 2.0


@pytest.mark.parametrize("dialect", WORKERS)
@pytest.mark.parametrize("state", ["unknown", "pending", "expired"])
def test_others_are_not_let_in(scene: Scene, dialect: str, state: str) -> None:
    name = f"{state}-{dialect}"
    credentials, keys = STATES[state](scene, name)
    worker = scene.worker(dialect, name, credentials)
    before = _refused(scene.broker, dialect)
    # Which error it is depends on what the dialect can say to a stranger.
    with pytest.raises(DragomanError), worker:
        pytest.fail("the worker joined")
    until(lambda: _refused(scene.broker, dialect) > before, f"{name} is refused", 20)
    assert name not in scene.known()
    assert keys


def _unknown(scene: Scene, name: str) -> tuple[Credentials, tuple[str, ...]]:
    _, made, keys = scene.site.peer(name)
    return made, keys


def _pending(scene: Scene, name: str) -> tuple[Credentials, tuple[str, ...]]:
    made, keys = _unknown(scene, name)
    for key in keys:
        scene.registry.add_pending(key, time.time())
    return made, keys


def _expired(scene: Scene, name: str) -> tuple[Credentials, tuple[str, ...]]:
    made, keys = _unknown(scene, name)
    now = time.time()
    for key in keys:
        # In one step: the broker reads the registry once a second, and must never see it allowed.
        scene.registry.add(key, name, now=now - 2, roles=("worker",), expires_at=now - 1)
    return made, keys


STATES: dict[str, Callable[[Scene, str], tuple[Credentials, tuple[str, ...]]]] = {
    "unknown": _unknown,
    "pending": _pending,
    "expired": _expired,
}


def _refused(broker: LocalBroker, dialect: str) -> int:
    """How often a link's transport has refused a key."""
    loop = broker.server.loop
    assert loop is not None
    link = "ncl" if dialect == "ncl" else "zss_backend" if dialect == "zss" else dialect
    transport = loop.links.by_name[link].transport
    if dialect == "ncl":
        lines = transport.server.log_lines  # type: ignore[attr-defined]
        return sum("authentication error" in line for line in lines)
    return int(transport.trouble["key refused"])  # type: ignore[attr-defined]


def test_a_client_of_libzmq_that_is_approved_while_it_runs_gets_in(scene: Scene) -> None:
    """Its first request waits in its own socket; nothing has to be started again."""
    public, secret = zmq.curve_keypair()
    with zmq.Context() as context:
        context.setsockopt(zmq.CURVE_PUBLICKEY, public)
        context.setsockopt(zmq.CURVE_SECRETKEY, secret)
        context.setsockopt(zmq.CURVE_SERVERKEY, scene.site.public.encode())
        with RawClient(scene.broker.endpoints["nfp"], b"late-client", context) as client:
            uuid, key = new_id(), f"curve:{public.decode()}"
            body = json.dumps({"task": "show_workers", "kwargs": {}, "args": []}).encode()
            client.ask(MMI, MANAGEMENT, b"any", uuid, body)
            until(lambda: key in KeyRegistry.open(scene.registry.path).entries(), "it is pending")
            assert client.get_or_none() is None
            scene.registry.approve(key, "late", ("operator",))
            assert client.reply(uuid, MMI, 20.0)[0] == "200"


def test_peers_move_from_one_key_of_the_broker_to_the_next(tmp_path: Path) -> None:
    site = SecuredSite(tmp_path / "house")
    old_public, old_secret = new_curve()
    old_file = site.folder / "old.curve"
    old_file.write_text(old_secret)
    old_file.chmod(0o600)
    curve = [site.files["curve"], old_file]
    both = {"nfp": "tcp://127.0.0.1:0,tcp://127.0.0.1:0"}
    _, made, _ = site.peer("anna")
    with LocalBroker("nfp", listen=both, credentials={"curve": curve}) as broker:
        new_place, old_place = (
            place.replace("tcp:", "nfp:") for place in broker.endpoints["nfp"].split(",")
        )
        old_credentials = made.with_server(old_public)
        worker = Worker(old_place, "probe", own_process_beats=False, credentials=old_credentials)
        worker.task(_add, name="add")
        with worker, Client(new_place, credentials=made) as client:
            assert client.call("probe", "add", x=2, y=3, timeout=20) == 5


def test_a_nats_server_of_somebody_else_knows_the_broker_by_its_seed(tmp_path: Path) -> None:
    scene_folder = tmp_path / "scene"
    scene_folder.mkdir()
    site = SecuredSite(scene_folder / "house")
    registry = KeyRegistry.open(scene_folder / "registry.json")
    _, admin, keys = site.peer("admin")
    _, wanda, wandas = site.peer("wanda")
    for name, each, role in (("admin", keys, "admin"), ("wanda", wandas, "worker")):
        for key in each:
            registry.add(key, name, now=time.time(), roles=(role,))
    nodes = Nodes(lambda: {wandas[0].removeprefix("nkey:"): ("wanda",)}, NclSubjects())
    with _somebody_elses(tmp_path / "nats", nodes) as (url, seed):
        security = {"enabled": True, "registry": registry.path}
        credentials = {"curve": [site.files["curve"]], "nats": seed}
        broker = LocalBroker(
            *("nfp", "nats"), listen={"nats": url}, security=security, credentials=credentials
        )
        with broker:
            place = url.replace("nats:", "ncl:") + "?reconnect_interval=0.2&heartbeat_interval=1"
            plain = Credentials(seed=wanda.seed)
            worker = Worker(place, "probe", name="wanda", credentials=plain)
            worker.task(_add, name="add")
            with worker, Client(broker.url("nfp"), credentials=admin) as client:
                assert client.call("probe", "add", x=2, y=3, timeout=30) == 5


@contextmanager
def _somebody_elses(folder: Path, nodes: Nodes) -> Iterator[tuple[str, Path]]:
    """Run a NATS server with users, in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def wait(work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, loop).result(30)

    async def make() -> NatsServer:
        return NatsServer(folder, users=nodes.users)

    server = wait(make())
    try:
        yield wait(server.start()), folder / "owner.seed"
    finally:
        wait(server.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
