"""The `dragoman cluster` commands: what the nodes of a cluster say, and a planned hand-over.

They run on a node, with its settings: they ask the members over the node's own NATS.
"""

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

import typer

from dragoman.cli.broker_files import CONFIG, DATA, find_settings
from dragoman.cli.init import write_private
from dragoman.cli.output import AS_JSON, print_json

if TYPE_CHECKING:
    from dragoman.server.cluster_sync import ServerSync
    from dragoman.server.cluster_watch import WatchedServers
    from dragoman.server.member_channel import Content
    from dragoman.server.settings import BrokerSettings

T = TypeVar("T")

app = typer.Typer(
    no_args_is_help=True,
    help="Look at a cluster of brokers and hand the lead over. Runs on a node, with its settings.",
)
#: Seconds that the members have to answer.
WITHIN: Final = typer.Option(3.0, "--within", help="Seconds that the nodes have to answer.")
#: Seconds between two looks of `status --wait`.
_LOOK_EVERY: Final = 0.5
#: Seconds that another node has to take over.
_HAND_OVER: Final = 15.0
#: Seconds to reach the NATS of a node, and NATS's own port.
_REACH: Final = 2.0
_PORT: Final = 4222
#: Answers that are waited for if the number of nodes is not known.
_MOST_NODES: Final = 1000
#: Attempts to compare all copies at a record that each of them has.
_ATTEMPTS: Final = 3


@app.command()
def token(
    file: Path = typer.Argument(Path("cluster.token"), help="The file to write."),
    as_json: bool = AS_JSON,
) -> None:
    """Make the secret of a new cluster. Copy the file to every node. Overwrites nothing."""
    try:
        write_private(file, f"{os.urandom(32).hex()}\n")
    except FileExistsError:
        raise ValueError(f"{file} exists already; nothing was changed") from None
    if as_json:
        print_json({"file": str(file)})
    else:
        typer.echo(f"wrote {file}; copy it to every node and use it with --cluster-token")


@app.command()
def status(
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    within: float = WITHIN,
    wait: float = typer.Option(0.0, "--wait", help="Seconds to wait until all is well."),
    as_json: bool = AS_JSON,
) -> None:
    """Show each node: its role, the epoch of the leader it follows, and how far it is behind.

    Exits with 0 if one node leads, all nodes answer and every copy of the stream is complete, with
    1 if not. Then the cluster survives the loss of any node: before you stop one, use `--wait 60`.
    """
    node = ClusterCommand(find_settings(config, data), within)
    rows, servers, sync = node.run(lambda: node.look_until_well(wait))
    expected = node.expected
    leaders = leaders_in(rows)
    is_well = node.is_well(rows, servers)
    if as_json:
        stream = {"stream": servers.leader, "complete": servers.current, "behind": servers.behind}
        found = {"nodes": rows, "expected": expected, "leaders": leaders, "ok": is_well}
        synced = {"sync": sync.as_text(), "sync_is_safe": sync.is_known_safe}
        print_json(found | stream | synced)
    else:
        _print_status(rows, expected, leaders)
        _print_servers(servers)
        typer.echo(sync.describe() if sync.is_known_safe else f"WARNING: {sync.describe()}")
    if not is_well:
        raise typer.Exit(1)


def _print_status(rows: "list[Content]", expected: int, leaders: list[str]) -> None:
    for row in rows:
        follows = f"follows {row['leader']}" if row["role"] == "standby" and row["leader"] else ""
        typer.echo(
            f"{row['node']:12} {row['role']:8} epoch {row['epoch']:<6} record {row['last']:<10} "
            f"behind {row['lag']:<6} {follows}".rstrip()
        )
    if len(rows) < expected:
        typer.echo(f"{expected - len(rows)} of {expected} nodes do not answer")
    if len(leaders) != 1:
        typer.echo(f"{len(leaders)} nodes lead; there should be one")


def _print_servers(servers: "WatchedServers") -> None:
    if not servers.leader:
        text = "the stream has no leader: a majority of the servers must run, and reach each other"
        typer.echo(
            f"{text}; for the first start of a cluster, all of them. The nodes' logs say why"
        )
        return
    behind = f"; not complete or not there: {', '.join(servers.behind)}" if servers.behind else ""
    typer.echo(f"stream led by {servers.leader}, complete on {', '.join(servers.current)}{behind}")


@app.command("step-down")
def step_down(
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    within: float = WITHIN,
    as_json: bool = AS_JSON,
) -> None:
    """Hand the lead over to another node; return when it leads. Nothing is lost or refused."""
    node = ClusterCommand(find_settings(config, data), within)
    before, after = node.run(node.hand_over)
    if as_json:
        print_json({"from": before, "to": after})
    else:
        typer.echo(f"{after} leads now, instead of {before}")


@app.command()
def verify(
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    within: float = WITHIN,
    as_json: bool = AS_JSON,
) -> None:
    """Compare the copies of all nodes: the hash chain at the newest record that all of them have.

    Exits with 0 if all copies are equal and all nodes answer, with 1 if not.
    """
    node = ClusterCommand(find_settings(config, data), within)
    seq, rows = node.run(node.compare)
    expected = node.expected
    marks = {row["mark"] for row in rows}
    is_equal = len(marks) == 1 and "" not in marks and len(rows) >= expected
    if as_json:
        print_json({"seq": seq, "nodes": rows, "expected": expected, "equal": is_equal})
    else:
        for row in rows:
            typer.echo(f"{row['node']:12} record {seq}  {row['mark'] or 'not there'}")
        typer.echo(_verdict(marks, is_equal=is_equal))
        if len(rows) < expected:
            typer.echo(f"{expected - len(rows)} of {expected} nodes do not answer")
    if not is_equal:
        raise typer.Exit(1)


def leaders_in(rows: "list[Content]") -> list[str]:
    """Return the nodes that say that they lead."""
    return [str(row["node"]) for row in rows if row["role"] == "leader"]


def obstacle_to(url: str) -> str:
    """Return the address of a NATS server and why nothing answers there; empty if it does."""
    first = urlsplit(url.split(",")[0])
    place = (first.hostname or "127.0.0.1", first.port or _PORT)
    try:
        socket.create_connection(place, _REACH).close()
    except OSError as error:
        return f"{place[0]}:{place[1]} ({error.strerror or error})"
    return ""


def _verdict(marks: set[str], *, is_equal: bool) -> str:
    """Say what a comparison has shown, and no more than that."""
    if is_equal:
        return "all copies are equal"
    if len(marks - {""}) > 1:
        return "THE COPIES DIFFER; `dragoman doctor` says which one, and what to do"
    return "not every copy could be compared" if marks - {""} else "no copy could be compared"


class ClusterCommand:
    """One command: a connection to the members, through the NATS of this node."""

    def __init__(self, settings: "BrokerSettings", within: float) -> None:
        # Imported here: most commands start faster without them.
        from dragoman.server.cluster_member import find_section, own_url, stream_name
        from dragoman.server.member_channel import MemberChannel

        section = find_section(settings)
        self._within = within
        self.section, self.data = section, settings.data
        self._url = url = own_url(section, settings.data)

        def connect() -> MemberChannel:
            return MemberChannel(url, section.name)

        self._connect = connect
        self._stream = stream_name(section.name)
        self._channel: MemberChannel
        #: Nodes that should answer; 0: not known.
        self.expected = section.size

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Connect, do the work, disconnect. Raises ConnectionError if this node does not run."""
        if not self.section.nats and (obstacle := obstacle_to(self._url)):
            raise ConnectionError(
                f"node {self.section.node} does not run with {self.data}: nothing answers at "
                f"{obstacle}; start it, or ask on a node that runs"
            )

        async def in_loop() -> T:
            self._channel = self._connect()
            await self._channel.open()
            try:
                return await work()
            finally:
                await self._channel.close()

        return asyncio.run(in_loop())

    async def look(self) -> "tuple[list[Content], WatchedServers, ServerSync]":
        """Ask every node, the stream for its servers, and these for their settings."""
        from dragoman.server.cluster_sync import ask_sync
        from dragoman.server.cluster_watch import ask_servers

        rows = await self.ask_all("status")
        servers = await ask_servers(self._channel, self._stream, self._within)
        return rows, servers, await ask_sync(self.section, self._channel, self._stream)

    async def look_until_well(
        self, wait: float
    ) -> "tuple[list[Content], WatchedServers, ServerSync]":
        """Look until all is well, for some seconds at most; return what was seen last."""
        until = time.monotonic() + wait
        while True:
            rows, servers, sync = await self.look()
            if self.is_well(rows, servers) or time.monotonic() >= until:
                return rows, servers, sync
            await asyncio.sleep(_LOOK_EVERY)

    def is_well(self, rows: "list[Content]", servers: "WatchedServers") -> bool:
        """Whether one node leads, all answer, and every server has the whole stream."""
        # A server that was taken out and has come back gets its copy later: until then it is one
        # of neither.
        is_complete = not servers.behind and len(servers.current) >= self.section.copies
        return len(leaders_in(rows)) == 1 and len(rows) >= self.expected and is_complete

    async def ask_all(self, kind: str, within: float = 0.0, **more: object) -> "list[Content]":
        """Ask every node."""
        rows = await self._channel.ask_all(
            kind, within or self._within, self.expected or _MOST_NODES, **more
        )
        return sorted(rows, key=lambda row: str(row["node"]))

    async def _leader(self, within: float = 0.0) -> str:
        rows = await self.ask_all("status", within)
        return next((str(row["node"]) for row in rows if row["role"] == "leader"), "")

    async def hand_over(self) -> tuple[str, str]:
        """Have the leader step down; return it and the next one."""
        before = await self._leader()
        if not before:
            raise ValueError("no node leads now; see `dragoman cluster status`")
        if not (await self._channel.ask(before, "step_down", self._within)).get("done"):
            raise ValueError(f"{before} no longer leads; see `dragoman cluster status`")
        try:
            async with asyncio.timeout(_HAND_OVER):
                while True:
                    after = await self._leader(0.5)
                    if after not in ("", before):
                        return before, after
        except TimeoutError:
            text = f"{before} stepped down, and no node took over within {_HAND_OVER:g} s"
            raise TimeoutError(f"{text}; see `dragoman cluster status`") from None

    async def compare(self) -> "tuple[int, list[Content]]":
        """Ask for the mark of one record that all have.

        A copy may lose old records meanwhile: then it asks again.
        """
        seq, rows = 0, list[Any]()
        for _ in range(_ATTEMPTS):
            found = await self.ask_all("mark", seq=0)
            seq = min((row["last"] for row in found), default=0)
            rows = await self.ask_all("mark", seq=seq)
            if all(row["mark"] for row in rows):
                break
        return seq, rows
