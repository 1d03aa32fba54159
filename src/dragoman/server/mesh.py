"""The mesh of one broker: its link to other brokers, made from the settings, and what it tells."""

import asyncio
import os
import re
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from dragoman.core.state import BrokerState
from dragoman.dialects.mesh.broker_side import MeshBrokerSide
from dragoman.dialects.mesh.neighbour import Neighbour
from dragoman.dialects.mesh.sessions import MeshConfig
from dragoman.dialects.mesh.settings import LISTENER, NeighbourTerms
from dragoman.ledger.base import Entry
from dragoman.model.names import WorkerName
from dragoman.model.record import Kind
from dragoman.server.broker_view import BrokerView
from dragoman.server.credentials import ListenerCredentials
from dragoman.server.links import Link
from dragoman.server.loop import Loop
from dragoman.server.mesh_transport import MeshDealer, MeshTransport, dial_address
from dragoman.server.mesh_view import RegistryView
from dragoman.server.settings import BrokerSettings
from dragoman.server.wiring import Admission, ListenerSecurity, new_id
from dragoman.services.base import TaskFunction, TaskTable
from dragoman.transports.zmq_peers import CurveKeys
from dragoman.transports.zmtp import MAX_FRAME, Router

NAME_FILE: Final = "broker-name"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
#: Records after which the offers may have changed.
_NEWS: Final = frozenset(
    {
        *(Kind.JOINED, Kind.LEFT, Kind.RESYNCED),
        *(Kind.PAUSED, Kind.RESUMED, Kind.DRAINED, Kind.UNDRAINED),
    }
)
#: Seconds that another broker may take to say why a job is in its state.
_ANSWER_WITHIN: Final = 2.0


def broker_name(settings: BrokerSettings) -> str:
    """Return the name of this broker: as set, or made once and kept in the data folder.

    The nodes of a cluster are one broker among others, so they have its name.
    """
    path = settings.data / NAME_FILE
    given: str = settings.name or settings.cluster.name
    if not given and not path.exists():
        host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:50] or "broker"
        path.write_text(f"{host}-{os.urandom(2).hex()}\n")
    name = given or path.read_text().strip()
    if not _NAME.fullmatch(name):
        where = "the setting name" if given else str(path)
        raise ValueError(f"{where}: {name!r} is not a broker name; use letters, digits and . _ -")
    return name


def dial_endpoint(label: str, url: str) -> str:
    """Return the endpoint that a URL means. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme == "ipc":
        return url
    try:
        is_usable = parts.scheme in ("mesh", "tcp") and parts.hostname and parts.port
    except ValueError:
        is_usable = False
    if not is_usable:
        raise ValueError(f"mesh.{label}.url: {url!r} is not mesh://HOST:PORT")
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    return f"tcp://{host}:{parts.port}"


class Mesh:
    """The link of one broker to others; without settings for it there is none."""

    def __init__(self, settings: BrokerSettings, admission: Admission, state: BrokerState) -> None:
        self.link: Link | None = None
        self._loop: Loop | None = None
        #: The questions that wait for another broker: (broker, job).
        self._asked: dict[tuple[str, str], asyncio.Future[tuple[str, str]]] = {}
        terms: Mapping[str, NeighbourTerms] = settings.mesh
        if settings.listen.mesh == "off" and not terms:
            return
        name = broker_name(settings)
        security = ListenerSecurity(ListenerCredentials(settings), admission)
        dials = {label: each for label, each in terms.items() if each.url}
        config = MeshConfig(
            name,
            {dial_address(label): each for label, each in dials.items()},
            {label: each for label, each in terms.items() if not each.url},
        )
        self.side = MeshBrokerSide(config, RegistryView(name, lambda: state), new_id)
        self.side.told = self._told
        self.transport = MeshTransport(
            _router(settings, security),
            {
                label: MeshDealer(
                    dial_endpoint(label, each.url),
                    name.encode(),
                    _keys(label, each, security.credentials),
                )
                for label, each in dials.items()
            },
        )
        self.link = Link(self.side, self.transport, LISTENER.name)

    @property
    def links(self) -> list[Link]:
        """The link, if there is one."""
        return [] if self.link is None else [self.link]

    def attach(self, loop: Loop, tasks: TaskTable, view: BrokerView) -> None:
        """Have offers follow the records of the broker, and management know the mesh."""
        self._loop = loop
        tasks.add(self._tasks(view))
        if self.link is not None:
            loop.listeners.append(self._durable)

    def _durable(self, entries: Sequence[Entry]) -> None:
        if any(entry.record.kind in _NEWS for entry in entries):
            assert self._loop is not None
            assert self.link is not None
            self.side.refresh()
            self._loop.links.touch(self.link)
            self._loop.links.wake()

    # --- for people ---------------------------------------------------------------------------

    def _tasks(self, view: BrokerView) -> dict[str, TaskFunction]:
        """Return the management tasks of the mesh."""
        if self.link is None:
            return {"show_mesh": self.rows}

        async def why(job: str) -> dict[str, Any]:
            return await self._why(view, job)

        return {"show_mesh": self.rows, "why": why}

    def rows(self) -> dict[str, Any]:
        """Return the name of this broker, and each neighbour with the state of its link."""
        if self.link is None:
            return {"broker": "", "neighbours": []}
        known = [self._row(each) for each in self.side.neighbours.values()]
        connected = {row["url"] for row in known}
        for dealer in self.transport.dealers.values():
            if dealer.endpoint not in connected:
                reason = dealer.refusal or _silence(dealer.is_connected, self.side.me)
                known.append({**_EMPTY_ROW, "url": dealer.endpoint, "detail": reason})
        return {"broker": self.side.me, "neighbours": known}

    def _row(self, neighbour: Neighbour) -> dict[str, Any]:
        dealer = self.transport.dealers.get(neighbour.address)
        is_linked = bool(neighbour.session)
        return {
            "broker": neighbour.name,
            "state": "linked" if is_linked else "away",
            "url": dealer.endpoint if dealer is not None else "",
            "offers": sorted(neighbour.offers),
            "offered": len(neighbour.told or ()) if is_linked else 0,
            "jobs": len(neighbour.jobs),
            "detail": "" if is_linked else "the link is broken; its jobs wait for it",
        }

    async def _why(self, view: BrokerView, job: str) -> dict[str, Any]:
        """Explain a job; if another broker has it, say which one, and what that one says."""
        found = view.why(job)
        broker = self._broker_of(found["worker"])
        if not broker or found["reason"] not in ("running", "waiting_for_input", "cancelling"):
            return found
        answer = await self._ask(broker, job)
        said = f"broker {broker} says: {answer[1]}" if answer else f"broker {broker} is silent"
        return {**found, "broker": broker, "words": f"{found['words']}; {said}"}

    def _broker_of(self, worker: str) -> str:
        """Return the broker that a worker is; empty if it is none."""
        assert self._loop is not None
        named = self._loop.broker.state.registry.named(WorkerName(worker))
        return next((each.route[0] for each in named if each.route), "")

    async def _ask(self, broker: str, job: str) -> tuple[str, str] | None:
        question = self.side.ask(broker, job)
        if question is None or self.link is None:
            return None
        future = self._asked.setdefault((broker, job), asyncio.get_running_loop().create_future())
        self.link.send(question)
        self.link.flush()
        try:
            async with asyncio.timeout(_ANSWER_WITHIN):
                return await asyncio.shield(future)
        except TimeoutError:
            return None
        finally:
            self._asked.pop((broker, job), None)

    def _told(self, broker: str, job: str, reason: str, words: str) -> None:
        future = self._asked.get((broker, job))
        if future is not None and not future.done():
            future.set_result((reason, words))


def _silence(is_connected: bool, me: str) -> str:
    """Say why a broker may not answer that this one connects to."""
    if not is_connected:
        return "no connection yet; does a broker listen there (--mesh-listen)?"
    return f"connected, and no answer; the broker there must have another name than {me}"


_EMPTY_ROW: Final[dict[str, Any]] = {
    "broker": "",
    "state": "connecting",
    "url": "",
    "offers": [],
    "offered": 0,
    "jobs": 0,
    "detail": "",
}


def _router(settings: BrokerSettings, security: ListenerSecurity) -> Router | None:
    """Make the listener for other brokers, if it is on."""
    endpoint = settings.listen.mesh
    return None if endpoint == "off" else security.router(endpoint, LISTENER.name, MAX_FRAME)


def _keys(label: str, terms: NeighbourTerms, credentials: ListenerCredentials) -> CurveKeys | None:
    """Return the keys for a broker that proves one; this broker proves its own."""
    if not terms.server_key:
        return None
    secrets = credentials.curve(LISTENER.name)
    if not secrets:
        raise ValueError(
            f"mesh.{label}.server_key is set, but this broker has no CURVE key of its own; "
            "set credentials.curve (`dragoman keys new` makes one)"
        )
    from zmq.utils import z85

    from dragoman.transports.zmtp_curve import CurveKeyPair

    public = z85.encode(CurveKeyPair(secrets[0]).public)
    return CurveKeys(public, secrets[0], terms.server_key.encode())
