"""Checks of a running cluster: roles, majority, copies, lag, agreement, and what to do about each.

`gather` asks the members over the NATS of this node. `judge` turns the answers into results.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from dragoman.cli.cluster import ClusterCommand, obstacle_to
from dragoman.cli.doctor.check_results import CheckResult, bad, ok, warning
from dragoman.model.value import value
from dragoman.server.cluster_member import own_url
from dragoman.server.cluster_settings import ClusterSection
from dragoman.server.cluster_sync import ServerSync
from dragoman.server.cluster_watch import WatchedServers
from dragoman.server.member_channel import Content
from dragoman.server.settings import BrokerSettings

_WHAT: Final = "cluster"
#: Seconds for the members to answer, and between two looks.
_WITHIN: Final = 3.0
_AGAIN: Final = 1.0
#: Messages that a standby may be behind on a busy cluster.
_FAR: Final = 100
#: Looks for a leader: during a take-over there is none for a moment.
_LOOKS: Final = 8


@value
class ClusterFacts:
    """What the members of a cluster and its NATS servers say."""

    #: The number of nodes; 0: not known.
    size: int
    #: The answers of the nodes, and those of a moment later.
    rows: Sequence[Content]
    later: Sequence[Content]
    servers: WatchedServers
    sync: ServerSync
    #: The newest record that all copies have, and its mark in each of them.
    seq: int
    marks: dict[str, str]
    #: Whether the servers are those of the nodes, and have their names.
    has_own_servers: bool = True

    @property
    def leaders(self) -> list[Content]:
        """The nodes that say that they lead, the newest first."""
        leading = [row for row in self.rows if row["role"] == "leader"]
        return sorted(leading, key=lambda row: -int(row["epoch"]))

    @property
    def silent(self) -> list[str]:
        """The nodes that do not answer, by name if it is known."""
        known = {*self.servers.current, *self.servers.behind} if self.has_own_servers else set()
        missing = sorted(known - {str(row["node"]) for row in self.rows})
        unnamed = self.size - len(self.rows) - len(missing)
        return missing + ["one more"] * max(0, unnamed)


def can_reach(section: ClusterSection, settings: BrokerSettings) -> bool | None:
    """Tell whether the NATS of this node can be reached; None if the node has never run."""
    try:
        return not obstacle_to(own_url(section, settings.data))
    except ValueError:
        return None


def gather(settings: BrokerSettings) -> ClusterFacts:
    """Ask the members. During a take-over, ask until a node leads."""
    command = ClusterCommand(settings, _WITHIN)

    async def ask() -> ClusterFacts:
        for _ in range(_LOOKS):
            rows, servers, sync = await command.look()
            if any(row["role"] == "leader" for row in rows):
                break
        await asyncio.sleep(_AGAIN)
        later = await command.ask_all("status")
        seq, marked = await command.compare()
        marks = {str(row["node"]): str(row["mark"]) for row in marked}
        own = not command.section.nats
        return ClusterFacts(command.expected, rows, later, servers, sync, seq, marks, own)

    return command.run(ask)


def judge(facts: ClusterFacts) -> Iterator[CheckResult]:
    """Say how the cluster is, and what to do."""
    yield _nodes(facts)
    yield from _roles(facts)
    yield from _lags(facts)
    yield _copies(facts)
    yield from _marks(facts)
    yield from _versions(facts)
    sync = facts.sync
    if sync.is_known_safe:
        yield ok(_WHAT, sync.describe())
    else:
        yield (bad if sync.weak else warning)(_WHAT, sync.describe())


def _nodes(facts: ClusterFacts) -> CheckResult:
    there, silent = len(facts.rows), facts.silent
    if not silent:
        return ok(_WHAT, f"{there} of {facts.size or there} nodes answer")
    text = f"{there} of {facts.size} nodes answer; silent: {', '.join(silent)}. Start what is down"
    text += "; if it runs, its log says why it does not join"
    if 2 * there <= facts.size:
        return bad(_WHAT, f"{text}: without a majority there is no strict work")
    if 2 * (there - 1) <= facts.size:
        text += ": one more loss stops strict work"
    gone = "a node that will not come back: `dragoman cluster remove NODE`"
    return warning(_WHAT, f"{text}; {gone}")


def _roles(facts: ClusterFacts) -> Iterator[CheckResult]:
    leaders = facts.leaders
    if not leaders:
        reason = "their logs say why"
        if not facts.servers.leader:
            reason = "the stream has no leader: a majority of the nats-servers must run"
        yield bad(_WHAT, f"no node leads; {reason}")
        return
    first = leaders[0]
    if len(leaders) > 1:
        older = ", ".join(str(row["node"]) for row in leaders[1:])
        text = (
            f"{first['node']} (epoch {first['epoch']}) and {older} say that they lead. The stream"
        )
        text += f" takes writes of {first['node']} only, and {older} should stop in seconds"
        yield bad(_WHAT, f"{text}; if doctor says so again, restart {older}")
    else:
        yield ok(_WHAT, f"{first['node']} leads, epoch {first['epoch']}")
    for row in facts.rows:
        if row["role"] != "leader":
            yield from _standby(row, first)


def _standby(row: Content, leader: Content) -> Iterator[CheckResult]:
    node, follows = row["node"], row["leader"] or "no node"
    if row["role"] != "standby":
        text = f"{node} neither leads nor follows: it starts or stops"
        yield warning(_WHAT, f"{text}, or cannot open its ledger or its ports; see its log")
    elif (row["leader"], row["epoch"]) != (leader["node"], leader["epoch"]):
        text = f"{node} follows {follows} (epoch {row['epoch']}), but {leader['node']} leads"
        hint = f"if doctor says so again, {node} does not reach the stream: see its log"
        yield warning(_WHAT, f"{text} (epoch {leader['epoch']}); {hint}")


def _lags(facts: ClusterFacts) -> Iterator[CheckResult]:
    later = {str(row["node"]): int(row["lag"]) for row in facts.later}
    behind = []
    for row in facts.rows:
        node, lag = str(row["node"]), int(row["lag"])
        now = later.get(node, lag)
        if row["role"] == "standby" and min(lag, now) > _FAR:
            behind.append(node)
            text = f"{node} is {now} messages behind"
            if now < lag:
                yield warning(_WHAT, f"{text} and catching up; do not stop another node yet")
            else:
                hint = "look at its disk and load; it takes over only when it has caught up"
                yield warning(_WHAT, f"{text} and does not catch up: {hint}")
    if facts.leaders and not behind:
        yield ok(_WHAT, "no standby is far behind")


def _copies(facts: ClusterFacts) -> CheckResult:
    servers = facts.servers
    if not servers.leader:
        text = "the stream has no leader, so nothing can be written"
        return bad(_WHAT, f"{text}; start nodes until a majority runs")
    complete, whole = len(servers.current), len(servers.current) + len(servers.behind)
    text = f"the stream is led by {servers.leader}, complete on {', '.join(servers.current)}"
    if servers.behind:
        text += f"; not complete or not there: {', '.join(servers.behind)}"
        if 2 * complete <= whole:
            return bad(_WHAT, f"{text}. Start these servers: fewer than a majority is complete")
        return warning(_WHAT, f"{text}. Stop no other node until these are complete")
    if whole == 1 and facts.size != 1:
        return warning(_WHAT, f"{text} alone: set `cluster.replicas`, a lost disk loses all")
    return ok(_WHAT, text)


def _marks(facts: ClusterFacts) -> Iterator[CheckResult]:
    marks, seq = facts.marks, facts.seq
    if not seq:
        return  # no record yet that all of them have
    known = {node: mark for node, mark in marks.items() if mark}
    without = sorted(marks.keys() - known.keys())
    if without:
        text = f"{', '.join(without)} cannot show record {seq}, which the others have"
        yield warning(_WHAT, f"{text}; wait until it has caught up, then `dragoman cluster verify`")
    counts = Counter(known.values()).most_common()
    if len(counts) < 2:
        if known:
            yield ok(_WHAT, f"the copies of {', '.join(sorted(known))} agree up to record {seq}")
        return
    if counts[0][1] * 2 <= len(known):
        text = f"the copies differ at record {seq}, and none has a majority"
        yield bad(_WHAT, f"{text}; keep all data folders, and run `dragoman ledger verify` on each")
        return
    wrong = ", ".join(sorted(node for node, mark in known.items() if mark != counts[0][0]))
    text = f"the copy of {wrong} differs from the others at or before record {seq}"
    yield bad(_WHAT, f"{text}; stop {wrong}, move its data folder away and start it: it copies all")


def _versions(facts: ClusterFacts) -> Iterator[CheckResult]:
    found = {str(row["node"]): str(row.get("version", "older")) for row in facts.rows}
    if len(set(found.values())) > 1:
        shown = ", ".join(f"{node} {version}" for node, version in found.items())
        yield warning(_WHAT, f"the nodes run different versions ({shown}); finish the upgrade")
