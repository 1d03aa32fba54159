"""The attack: sends mutated messages to a live broker while honest peers work, then checks it.

The broker must stay up and answer, without internal errors. Honest peers of the attacked dialect
must be served throughout. The broker's memory must not grow with the number of messages.
"""

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dragoman.dialects.descriptor import Carrier, Dialect
from dragoman.dialects.listeners import LISTENERS
from dragoman.dialects.registry import DIALECTS
from dragoman.sdk.blocking import Client
from dragoman.sdk.errors import DragomanError
from dragoman.testing.fabric import Fabric
from dragoman.testing.fuzz.dcp import DcpGrammar
from dragoman.testing.fuzz.grammar import SERVICES, Grammar, SeedGrammar
from dragoman.testing.fuzz.http import HttpGrammar
from dragoman.testing.fuzz.memo import MemoGrammar
from dragoman.testing.fuzz.ncl import NclGrammar
from dragoman.testing.fuzz.nfp import NfpGrammar
from dragoman.testing.fuzz.senders import HttpSender, NatsSender, Sender, SpSender, ZmqSender
from dragoman.testing.fuzz.zss import ZssBackGrammar, ZssFrontGrammar
from dragoman.testing.gauges import read_metrics, resident_bytes

#: Settings under which the jobs of mutated messages end soon, so that memory stays bounded.
SETTINGS: Final = """
[ledger]
seal = false
[limits]
finished_jobs = 2000
retention = 5
queued_jobs = 2000
[nfp]
patience = 0.2
timeout = 2
[memo]
queue_timeout = 0.2
[http]
patience = 0.05
timeout = 1
[mdp]
patience = 0.05
[ncl]
remember = 2000
heartbeat_interval = 2
disconnect_timeout = 6
grace = 2
""" + "".join(
    f'[services."{name}"]\npatience = 0.02\nqueue_timeout = 0.03\ntimeout = 0.1\n'
    for name in (*SERVICES, "pong", "echo", "demo")
)
_MIB: Final = 2**20
_BATCH: Final = 1000
#: Batches that are sent before the broker's counters are read.
_AHEAD: Final = 3
#: Share of the messages that fills bounded buffers. Memory must be flat after it.
_WARM: Final = 0.3
#: Allowed growth after the warm-up: SQLite's caches (16 MiB per connection) still fill. One job
#: kept per message would be 200 MiB or more.
_MOST_GROWTH: Final = 48 * _MIB


@dataclass(frozen=True)
class AttackTarget:
    """One link to attack: its grammar, its sender, and the dialects of its honest peers."""

    grammar: Callable[[random.Random, Path | None], Grammar]
    sender: Callable[[str, random.Random], Sender]
    #: The dialects of the honest client and worker.
    client: str
    worker: str


#: Grammars by listener. Other listeners have the seeds of their dialect.
_GRAMMARS: Final[dict[str, Callable[[random.Random, Path | None], Grammar]]] = {
    "nfp": NfpGrammar,
    "dcp": DcpGrammar,
    "zss": ZssFrontGrammar,
    "zss_backend": ZssBackGrammar,
    "memo": MemoGrammar,
    "nats": NclGrammar,
    "http": lambda chance, vectors: HttpGrammar(chance),
}
_SENDERS: Final[dict[Carrier, Callable[[str, random.Random], Sender]]] = {
    Carrier.ZEROMQ: ZmqSender,
    Carrier.SP: SpSender,
    Carrier.NATS: NatsSender,
    Carrier.HTTP: HttpSender,
}


def _target(dialect: Dialect, listener: str) -> AttackTarget:
    seeds = [list(frames) for frames in dialect.fuzz_seeds(listener)]
    grammar = _GRAMMARS.get(listener) or (lambda chance, vectors: SeedGrammar(chance, seeds))
    client = dialect.name if dialect.has_clients else "nfp"
    return AttackTarget(grammar, _SENDERS[dialect.carrier], client, dialect.name)


ATTACK_TARGETS: Final = {
    each.name: _target(DIALECTS[each.dialect], each.name) for each in LISTENERS
}


@dataclass
class AttackOutcome:
    """The outcome of one attack."""

    link: str
    seed: int
    sent: int = 0
    seconds: float = 0.0
    honest_calls: int = 0
    slowest: float = 0.0
    rejected: int = 0
    grown: int = 0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        verdict = "; ".join(self.problems[:3]) or "held"
        return (
            f"{self.link:11} seed {self.seed}  {self.sent:7} messages in {self.seconds:5.1f} s,"
            f" {self.rejected} on record as rejected, {self.honest_calls} honest calls (slowest"
            f" {self.slowest * 1000:.0f} ms), memory {self.grown / _MIB:+.1f} MiB: {verdict}"
        )


class HonestCaller(threading.Thread):
    """A client that calls its worker in a loop and notes every wrong or missing answer."""

    def __init__(self, url: str, service: str, outcome: AttackOutcome) -> None:
        super().__init__(daemon=True)
        self._url, self._service, self._outcome = url, service, outcome
        self._is_over = threading.Event()

    def run(self) -> None:
        """Call until `end`, and at least once."""
        with Client(self._url) as client:
            self._call(client)
            while not self._is_over.wait(0.02):
                self._call(client)

    def _call(self, client: Client) -> None:
        outcome, fields = self._outcome, {"n": self._outcome.honest_calls, "text": "naïve"}
        started = time.monotonic()
        try:
            if client.call(self._service, "echo", fields, timeout=30) != fields:
                outcome.problems.append("an honest peer got a wrong answer")
        except DragomanError as error:
            outcome.problems.append(f"an honest peer was not served: {error}")
        outcome.honest_calls += 1
        outcome.slowest = max(outcome.slowest, time.monotonic() - started)

    def end(self) -> None:
        """Stop after the current call."""
        self._is_over.set()
        self.join(60)


def honest_service(link: str) -> str:
    """Return the name of the service that only honest peers use."""
    return f"honest-{link.replace('_', '-')}"


def start_peers(fabric: Fabric, links: list[str]) -> None:
    """Start the broker and an honest worker for every link."""
    fabric.start_broker()
    for link in links:
        name, dialect = honest_service(link), ATTACK_TARGETS[link].worker
        url = fabric.url(dialect, is_worker=True)
        # A node sets its own heartbeat interval; the timeouts of this broker are short.
        url += "?heartbeat_interval=1" if dialect == "ncl" else ""
        fabric.start_worker(dialect, name, f"{name}-1", url)
    fabric.wait_for([honest_service(link) for link in links])


def attack(
    fabric: Fabric,
    link: str,
    seed: int,
    messages: int,
    vectors: Path | None = None,
    most_growth: int = _MOST_GROWTH,
) -> AttackOutcome:
    """Send at least `messages` messages to a link of a running fabric; return the outcome."""
    front, outcome = ATTACK_TARGETS[link], AttackOutcome(link, seed)
    chance = random.Random(f"{seed} {link}")
    before = _counters(fabric, link)
    grammar = front.grammar(chance, vectors)
    sender = front.sender(fabric.endpoints[link], chance)
    honest = HonestCaller(fabric.url(front.client), honest_service(link), outcome)
    started = time.monotonic()
    honest.start()
    try:
        warm = _send_all(fabric, link, grammar, sender, messages, outcome)
    finally:
        honest.end()
        sender.close()
    outcome.seconds = time.monotonic() - started
    _judge(fabric, link, before, warm, outcome, most_growth)
    return outcome


def _send_all(
    fabric: Fabric,
    link: str,
    grammar: Grammar,
    sender: Sender,
    messages: int,
    outcome: AttackOutcome,
) -> int:
    """Send the messages; return the broker's memory after the warm-up."""
    warm, before = 0, _counters(fabric, link)[1]
    while outcome.sent < messages and fabric.is_broker_up:
        if outcome.sent % (_AHEAD * _BATCH) == 0:
            # Wait, so that messages reach the broker and do not only fill the socket's queue.
            _wait_received(fabric, link, before + outcome.sent - _BATCH)
        try:
            outcome.sent += sender.send([grammar.message() for _ in range(_BATCH)])
        except OSError as error:
            outcome.problems.append(f"the broker stopped reading: {error}")
            break
        if not warm and outcome.sent >= messages * _WARM:
            warm = resident_bytes(fabric.broker_pid)
    with suppress(OSError):  # `_judge` reports a broker that is gone
        # Messages that a peer has not sent yet are lost when it closes.
        _wait_received(fabric, link, before + outcome.sent)
    return warm


def _counters(fabric: Fabric, link: str) -> tuple[float, float, float]:
    """Return internal errors, messages received on the link, and rejections."""
    metrics = read_metrics(fabric.endpoints["http"])
    errors = sum(n for (name, _), n in metrics.items() if name == "dragoman_link_internal_errors")
    name = {"nats": "ncl"}.get(link, link)
    received = metrics["dragoman_link_received", name]
    return errors, received, metrics["dragoman_messages_rejected", ""]


def _judge(
    fabric: Fabric,
    link: str,
    before: tuple[float, float, float],
    warm: int,
    outcome: AttackOutcome,
    most_growth: int,
) -> None:
    try:
        after = _wait_received(fabric, link, before[1] + outcome.sent)
    except OSError:
        outcome.problems.append(f"the broker stopped; see {fabric.log('broker')}")
        return
    outcome.rejected = round(after[2] - before[2])
    outcome.grown = resident_bytes(fabric.broker_pid) - warm
    if errors := after[0] - before[0]:
        outcome.problems.append(f"{errors:.0f} internal errors; see {fabric.log('broker')}")
    if link != "http" and after[1] - before[1] < outcome.sent:
        outcome.problems.append(f"only {after[1] - before[1]:.0f} messages arrived")
    if outcome.grown > most_growth:
        outcome.problems.append("memory grows with the number of messages")
    if not outcome.honest_calls:
        outcome.problems.append("no honest peer was served")


def _wait_received(fabric: Fabric, link: str, expected: float) -> tuple[float, float, float]:
    """Wait until the broker has received what was sent, or receives nothing more."""
    found, until = _counters(fabric, link), time.monotonic() + 30
    while link != "http" and found[1] < expected and time.monotonic() < until:
        time.sleep(0.05)
        found = _counters(fabric, link)
    return found
