"""Who lives in a synthetic ledger: services, workers, clients, and the codes they are known by.

The generator works on numbers; the tables here turn them into the words of records.
"""

from dataclasses import dataclass, field
from typing import Final

from dragoman.model.record import Kind

#: Every so often a flaky worker is away for a while.
FLAP_EVERY_US: Final = 1_800_000_000
FLAP_FOR_US: Final = 60_000_000
#: Flaky workers do not go all at once: each is so much further on than the one before.
FLAP_APART_US: Final = 37_000_000

KINDS: Final = tuple(kind.value for kind in Kind)
KIND: Final = {kind: code for code, kind in enumerate(KINDS)}
STATES: Final = ("", "queued", "running", "succeeded", "failed", "expired", "cancelled", "dead")
STATE: Final = {state: code for code, state in enumerate(STATES)}
FAULTS: Final = (
    "",
    "task_failed",
    "worker_lost",
    "handed_back",
    "undelivered",
    "exhausted",
    "queue_timeout",
    "cancelled",
    "queue_full",
    "denied",
    "no_worker",
)
FAULT: Final = {fault: code for code, fault in enumerate(FAULTS)}
DIALECTS: Final = ("", "nfp", "dcp", "zss", "memo", "ncl", "http")
DIALECT: Final = {dialect: code for code, dialect in enumerate(DIALECTS)}

#: Name, dialect of its workers, how many, median run in microseconds, share of the traffic.
SERVICES: Final = (
    ("inventory.read", "nfp", 6, 40_000, 30),
    ("image.resize", "memo", 8, 250_000, 22),
    ("device.config", "nfp", 6, 1_200_000, 14),
    ("text.summarise", "zss", 5, 900_000, 12),
    ("metrics.query", "dcp", 4, 90_000, 12),
    ("report.build", "http", 3, 3_000_000, 6),
    ("batch.train", "ncl", 4, 8_000_000, 4),
)
#: Where planted faults happen, apart from all other traffic.
PROBE: Final = "probe"
PROBE_WORKERS: Final = ("probe-a", "probe-b", "probe-c")
_CLIENT_DIALECTS: Final = ("nfp", "dcp", "zss", "memo", "http")
_CLIENTS_EACH: Final = 8


@dataclass
class SynthWorld:
    """Tables from codes to words; code 0 is the empty word everywhere."""

    services: list[str] = field(default_factory=lambda: [""])
    workers: list[str] = field(default_factory=lambda: [""])
    worker_dialects: list[int] = field(default_factory=lambda: [0])
    worker_services: list[int] = field(default_factory=lambda: [0])
    clients: list[str] = field(default_factory=lambda: [""])
    client_dialects: list[int] = field(default_factory=lambda: [0])
    principals: list[str] = field(default_factory=lambda: ["anonymous"])
    details: list[str] = field(default_factory=lambda: [""])
    targets: list[str] = field(default_factory=lambda: ["", "any"])
    #: First worker and number of workers of each service.
    teams: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])

    def detail(self, words: str) -> int:
        """Return the code of some words, new if need be."""
        return _code(self.details, words)

    def target(self, words: str) -> int:
        """Return the code of a target, new if need be."""
        return _code(self.targets, words)

    def peers(self) -> list[str]:
        """Return the peer ids of the workers."""
        pairs = zip(self.worker_dialects, self.workers, strict=True)
        return [f"{DIALECTS[dialect]}/{name}" if name else "" for dialect, name in pairs]

    @property
    def flaky(self) -> list[int]:
        """The workers that come and go: the first of each service but the probe."""
        return [first for first, _ in self.teams[1:-1]]


def _code(words: list[str], word: str) -> int:
    if word not in words:
        words.append(word)
    return words.index(word)


def build_world() -> SynthWorld:
    """Make the world that every synthetic ledger tells of."""
    world = SynthWorld()
    for name, dialect, size, _, _ in (*SERVICES, (PROBE, "nfp", len(PROBE_WORKERS), 0, 0)):
        world.teams.append((len(world.workers), size))
        world.services.append(name)
        for number in range(size):
            is_probe = name == PROBE
            world.workers.append(PROBE_WORKERS[number] if is_probe else f"{name}-{number + 1}")
            world.worker_dialects.append(DIALECT[dialect])
            world.worker_services.append(len(world.services) - 1)
    for dialect in _CLIENT_DIALECTS:
        for number in range(_CLIENTS_EACH):
            world.clients.append(f"{dialect}/client-{number + 1}")
            world.client_dialects.append(DIALECT[dialect])
            world.principals.append(f"team-{(number % 4) + 1}")
    return world
