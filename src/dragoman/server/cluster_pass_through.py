"""What a standby does at its own listeners: it passes every connection through to the leader.

Peers may have the address of any node. Connections are cut when the leader changes, so that peers
reconnect and are passed to the new one.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec
import structlog

from dragoman.dialects.listeners import ALL_LISTENERS, OFF
from dragoman.server.cluster_settings import WILDCARDS
from dragoman.server.lease import LeaseHolder
from dragoman.server.settings import BrokerSettings
from dragoman.transports.addresses import split_endpoint
from dragoman.transports.base import is_loopback
from dragoman.transports.pass_through import PassThroughListener

log = structlog.get_logger("dragoman.cluster")

#: Seconds between two looks at who leads.
_LOOK_EVERY: Final = 0.1

#: Tells a node whose connection comes: the node, our own end of it, and the peer's address.
AnnounceTo = Callable[[str, str, str], Awaitable[None]]


class ClusterPassThrough:
    """The listeners of a standby."""

    def __init__(self, settings: BrokerSettings, announce: AnnounceTo) -> None:
        self._settings = settings
        self._announce = announce
        self._holder: Callable[[], LeaseHolder | None] = lambda: None
        self._listeners: list[PassThroughListener] = []
        self._watcher: asyncio.Task[None] | None = None

    async def open(self, holder: Callable[[], LeaseHolder | None]) -> None:
        """Listen at every link's endpoint."""
        self._holder = holder
        try:
            for name, endpoint in passed_endpoints(self._settings).items():
                listener = PassThroughListener(
                    endpoint, partial(self._target, name), self._tell, refusal=self._refusal(name)
                )
                self._listeners.append(listener)
                await listener.open(lambda: None)
        except BaseException:
            await self.close()
            raise
        self._watcher = asyncio.create_task(self._watch(), name="dragoman pass-through")

    async def close(self) -> None:
        """Stop listening and cut every connection."""
        if self._watcher is not None:
            self._watcher.cancel()
            with suppress(asyncio.CancelledError):
                await self._watcher
            self._watcher = None
        listeners, self._listeners = self._listeners, []
        await asyncio.gather(*(each.close() for each in listeners))

    def _refusal(self, link: str) -> bytes:
        """Return what an HTTP peer is told while no node leads; TLS ends at the leader."""
        if link != "http" or self._settings.credentials.certificate is not None:
            return b""
        return no_leader_answer(self._settings.cluster.node)

    @property
    def connection_count(self) -> int:
        """Connections that are passed through now."""
        return sum(each.connection_count for each in self._listeners)

    def _leader(self) -> LeaseHolder | None:
        found = self._holder()
        # Right after this node stepped down the lease may still name it.
        return None if found is None or found.node == self._settings.cluster.node else found

    def _target(self, link: str) -> str | None:
        leader = self._leader()
        endpoints = "" if leader is None else leader.endpoints.get(link, "")
        found = [each for each in endpoints.split(",") if "://" in each and "ipc:" not in each]
        return f"tcp://{found[0].partition('://')[2]}" if found else None

    async def _tell(self, source: str, origin: str) -> None:
        leader = self._leader()
        if leader is None:
            raise ConnectionError("the leader has changed")
        await self._announce(leader.node, source, origin)

    async def _watch(self) -> None:
        known: tuple[str, int] | None = None
        while True:
            leader = self._leader()
            now = None if leader is None else (leader.node, leader.epoch)
            if now != known and now is not None:
                if known is not None:
                    log.info("the leader has changed; connections are cut", leader=now[0])
                    for listener in self._listeners:
                        listener.cut()
                known = now
            await asyncio.sleep(_LOOK_EVERY)


def no_leader_answer(node: str) -> bytes:
    """Return the HTTP response of a node that is neither leader nor can reach one."""
    content = msgspec.json.encode(
        {
            "title": "Service Unavailable",
            "status": 503,
            "detail": "no node of the cluster leads now; try again",
            "node": node,
            "role": "neither",
            "leader": "",
        }
    )
    head = (
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n"
        f"Retry-After: 2\r\nConnection: close\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def passed_endpoints(settings: BrokerSettings) -> dict[str, str]:
    """Return where a standby listens, by link: at every endpoint that is on and has a port."""
    found = {}
    for each in ALL_LISTENERS:
        text = getattr(settings.listen, each.name)
        if text == OFF or text.startswith(("nats:", "tls:")):
            continue
        # The broker's own nats-server is on this port unless the settings name another.
        places = (text or f"tcp://127.0.0.1:{each.port}").split(",")
        found[each.name] = ",".join(
            f"tcp://{place.partition('://')[2]}" if "ipc:" not in place else place.strip()
            for place in places
        )
    return found


def require_fixed_ports(settings: BrokerSettings) -> None:
    """Raise ValueError for an endpoint whose port is picked at the start: peers need to know it."""
    for name, endpoints in passed_endpoints(settings).items():
        if any(each.endswith(":0") for each in endpoints.split(",")):
            raise ValueError(f"listener {name} of a cluster needs a fixed port, not 0")


def advertise(settings: BrokerSettings, endpoints: dict[str, str]) -> dict[str, str]:
    """Return a leader's endpoints as the other nodes reach them.

    An endpoint on the loopback is left out if the cluster spans several machines.
    """
    host, found = settings.cluster.own_host, {}
    for name, text in endpoints.items():
        places = [_reachable(each.strip(), host) for each in text.split(",")]
        if usable := [each for each in places if each]:
            found[name] = usable[0]
        elif text and "memory:" not in text:
            log.warning(
                "other nodes cannot pass connections to this listener; let it listen on an "
                "address that they reach",
                listener=name,
                endpoint=text,
            )
    return found


def _reachable(endpoint: str, host: str) -> str:
    scheme, _, place = endpoint.partition("://")
    if scheme not in ("tcp", "http", "https", "nats"):
        return ""
    own, port = split_endpoint(f"tcp://{place}")
    if own in WILDCARDS:
        own = host
    if is_loopback(own) and not is_loopback(host):
        return ""
    return f"tcp://[{own}]:{port}" if ":" in own else f"tcp://{own}:{port}"
