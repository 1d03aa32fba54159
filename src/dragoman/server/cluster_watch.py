"""What the leader knows of the other nodes, for dashboards and metrics; asked every few seconds.

A standby's HTTP port passes requests on to the leader, so the leader tells about all nodes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from dragoman.core.view import ClusterMemberRow, ClusterState
from dragoman.server.member_channel import MemberChannel
from dragoman.transports.jetstream import stream_servers

#: Seconds between two looks.
_LOOK_EVERY: Final = 2.0


class WatchedServers(Protocol):
    """The servers of a stream."""

    @property
    def leader(self) -> str:
        """The server that leads the stream."""
        ...

    @property
    def current(self) -> tuple[str, ...]:
        """Servers with a complete copy."""
        ...

    @property
    def behind(self) -> tuple[str, ...]:
        """Servers without one."""
        ...


async def ask_servers(channel: MemberChannel, stream: str, within: float) -> WatchedServers:
    """Ask NATS for the servers of a stream; without an answer none are known."""
    try:
        found = await channel.call(f"$JS.API.STREAM.INFO.{stream}", within)
    except TimeoutError:
        found = {}
    return stream_servers(found.get("cluster") or {})


class ClusterWatch:
    """Asks the members and the stream while `is_wanted`; keeps the last answers."""

    def __init__(
        self,
        size: int,
        ask: Callable[[], Awaitable[Sequence[dict[str, Any]]]],
        servers: Callable[[], WatchedServers],
        is_wanted: Callable[[], bool],
    ) -> None:
        self._size = size
        self._ask = ask
        self._servers = servers
        self._is_wanted = is_wanted
        self._task: asyncio.Task[None] | None = None
        self.state = ClusterState(size=size)

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.create_task(self._run(), name="dragoman cluster watch")

    async def stop(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            if self._is_wanted():
                await self.look()
            await asyncio.sleep(_LOOK_EVERY)

    async def look(self) -> None:
        """Ask once. A stream that does not answer has no known copies."""
        rows = await self._ask()
        members = [
            ClusterMemberRow(str(r["node"]), str(r["role"]), int(r["last"]), int(r["lag"]))
            for r in rows
        ]
        members.sort(key=lambda each: each.node)
        state = ClusterState(size=self._size, members=tuple(members))
        with suppress(OSError):
            found = await asyncio.to_thread(self._servers)
            state = ClusterState(
                self._size, tuple(members), found.leader, found.current, found.behind
            )
        self.state = state
