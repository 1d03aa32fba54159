"""Whether the NATS servers of a cluster sync each write to disk before they acknowledge it.

With `sync_interval: always` an acknowledgement means: on the disks of a majority. With any other
setting, a power failure of all servers loses what they acknowledged since their last sync. NATS
tells the setting to its system account and on its monitoring port. So it is asked at both: at
`cluster.monitor`, and by a request that an account may import from the system account.
"""

import asyncio
import http.client
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import msgspec

from dragoman.model.value import field, value
from dragoman.server.cluster_settings import ClusterSection
from dragoman.server.cluster_watch import ask_servers
from dragoman.server.member_channel import Content, MemberChannel

#: Every server answers it with its settings, to those who may ask.
SETTINGS: Final = "$SYS.REQ.SERVER.PING.VARZ"
#: The setting of a server that syncs each write.
ALWAYS: Final = 0.0
#: Seconds for the answers of all servers, and for that of a monitoring port.
_WITHIN: Final = 1.0
_FETCH: Final = 2.0
_LARGEST: Final = 2**20
_OK: Final = 200
_RISK: Final = "a power failure of all servers loses acknowledged work"
_HINT: Final = "set `sync_interval: always` at them"


@value
class ServerSync:
    """How often each server of the ledger syncs; `trouble` says why a monitor did not answer."""

    #: By server: seconds between two syncs; 0: each write; None: not known.
    servers: Mapping[str, float | None] = field(default_factory=dict)
    trouble: str = ""

    @property
    def weak(self) -> dict[str, float]:
        """Servers that acknowledge what is not on their disk."""
        return {name: each for name, each in self.servers.items() if each}

    @property
    def unknown(self) -> tuple[str, ...]:
        """Servers whose setting is not known."""
        return tuple(name for name, each in self.servers.items() if each is None)

    @property
    def is_known_safe(self) -> bool:
        """Whether all servers are known, and sync each write."""
        return bool(self.servers) and not self.weak and not self.unknown

    def describe(self) -> str:
        """Return what is known, what it means, and what to do."""
        if self.is_known_safe:
            return f"each write is synced to disk on {', '.join(self.servers)}"
        if self.weak:
            named = ", ".join(f"{name} every {each:g} s" for name, each in self.weak.items())
            return f"servers sync only now and then ({named}): {_RISK}; {_HINT}"
        of = f" of {', '.join(self.unknown)}" if self.unknown else ""
        why = f" ({self.trouble})" if self.trouble else ""
        return (
            f"whether each write is synced to disk is not known{of}{why}: if not, {_RISK}; {_HINT},"
            " and let the broker read it: set `cluster.monitor`, see docs/cluster.md"
        )

    def as_text(self) -> dict[str, str]:
        """Return the setting of each server as one word."""
        return {name: _word(each) for name, each in self.servers.items()}


def _word(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    return "always" if seconds == ALWAYS else f"{seconds:g} s"


def read_setting(found: Content) -> tuple[str, float] | None:
    """Return name and setting of a server, from its `varz`; None: it tells neither."""
    about = found.get("data", found)
    try:
        name = str(found.get("server", {}).get("name") or about["server_name"])
        config = about["jetstream"]["config"]
        if config.get("sync_always"):
            return name, ALWAYS
        return name, float(config["sync_interval"]) / 1e9
    except (KeyError, TypeError, ValueError, AttributeError):
        return None  # a server without JetStream, or no server


async def ask_sync(section: ClusterSection, channel: MemberChannel, stream: str) -> ServerSync:
    """Ask for the settings of the servers that have the ledger."""
    servers = await ask_servers(channel, stream, _WITHIN)
    names = sorted({*servers.current, *servers.behind})
    if not section.nats:
        # The brokers have written their configuration. Without a majority no server is named.
        return ServerSync(dict.fromkeys(names or [section.node], ALWAYS))
    found, trouble = await _monitored(section.monitor)
    if not found.keys() >= set(names) or not names:
        found |= await _asked(channel, set(names) - found.keys())
    return ServerSync({name: found.get(name) for name in names} if names else found, trouble)


async def _asked(channel: MemberChannel, names: set[str]) -> dict[str, float]:
    """Ask all servers over NATS; those that must not answer are silent."""

    def read(answers: list[Content]) -> dict[str, float]:
        return dict(filter(None, map(read_setting, answers)))

    answers = await channel.call_all(
        SETTINGS, _WITHIN, lambda found: bool(names) and read(found).keys() >= names
    )
    return read(answers)


async def _monitored(urls: str) -> tuple[dict[str, float], str]:
    """Ask the monitoring ports; return the settings, and why one of them is not known."""
    found, trouble = dict[str, float](), ""
    for url in filter(None, (each.strip() for each in urls.split(","))):
        try:
            read = read_setting(await asyncio.to_thread(fetch_settings, url))
        except (OSError, http.client.HTTPException, ValueError) as error:
            trouble = f"{url}: {error}"
            continue
        if read is None:
            trouble = f"{url} is no NATS server with JetStream"
        else:
            found |= dict([read])
    return found, trouble


def fetch_settings(url: str) -> Content:
    """Get `/varz` of a monitoring port. Raises OSError, HTTPException and ValueError."""
    place = urlsplit(url)
    host = place.hostname or ""
    connection: http.client.HTTPConnection
    if place.scheme == "https":
        trusted = ssl.create_default_context()
        connection = http.client.HTTPSConnection(host, place.port, timeout=_FETCH, context=trusted)
    else:
        connection = http.client.HTTPConnection(host, place.port, timeout=_FETCH)
    try:
        connection.request("GET", f"{place.path.rstrip('/')}/varz")
        answer = connection.getresponse()
        raw = answer.read(_LARGEST)
    finally:
        connection.close()
    if answer.status != _OK:
        raise ValueError(f"it answers with status {answer.status}")
    return msgspec.json.decode(raw, type=Content)
