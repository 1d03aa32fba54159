"""The services, workers and clients of a synthetic ledger, and their numeric codes.

The generator works on numbers. The tables here map them to the texts of records.
"""

from dataclasses import dataclass, field
from typing import Final

from dragoman.model.record import Kind

#: A flaky worker is away for `FLAP_FOR_US` in each period of `FLAP_EVERY_US`.
FLAP_EVERY_US: Final = 1_800_000_000
FLAP_FOR_US: Final = 60_000_000
#: Shift of the period from one flaky worker to the next, so they do not leave together.
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
#: The service of planted faults.
PROBE: Final = "probe"
PROBE_WORKERS: Final = ("probe-a", "probe-b", "probe-c")
_CLIENT_DIALECTS: Final = ("nfp", "dcp", "zss", "memo", "http")
_CLIENTS_EACH: Final = 8


@dataclass
class SynthWorld:
    """Tables from codes to texts; code 0 is the empty text in all but `principals`."""

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

    def detail(self, text: str) -> int:
        """Return the code of a detail; add it if it is new."""
        return _code(self.details, text)

    def target(self, text: str) -> int:
        """Return the code of a target; add it if it is new."""
        return _code(self.targets, text)

    def peers(self) -> list[str]:
        """Return the peer ids of the workers."""
        pairs = zip(self.worker_dialects, self.workers, strict=True)
        return [f"{DIALECTS[dialect]}/{name}" if name else "" for dialect, name in pairs]

    @property
    def flaky(self) -> list[int]:
        """The workers that leave and rejoin: the first of each service but the probe."""
        return [first for first, _ in self.teams[1:-1]]


def _code(texts: list[str], text: str) -> int:
    if text not in texts:
        texts.append(text)
    return texts.index(text)


def build_world() -> SynthWorld:
    """Make the services, workers and clients of every synthetic ledger."""
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
