"""What one broker knows of a neighbour: the session, its offers, and the jobs that it has.

Each service of a neighbour is one worker here, with a credit of its own. So a service whose workers
are busy over there takes no credit from the others.
"""

from collections.abc import Iterable
from typing import Final

from dragoman.core.events import Event, PeerLeft, WorkerJoined
from dragoman.dialects.mesh.settings import NAME, NeighbourTerms
from dragoman.dialects.mesh.wire import Offer
from dragoman.model.labels import PREFETCH
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName, peer_id

#: The label of a neighbour's services; `labels:broker=NAME` is a target.
BROKER_LABEL: Final = "broker"


def worker_name(broker: str, service: str) -> WorkerName:
    """Return the name of a neighbour's service as a worker."""
    return WorkerName(f"{broker}/{service}")


class Neighbour:
    """One other broker."""

    def __init__(self, name: str, terms: NeighbourTerms) -> None:
        self.name = name
        self.terms = terms
        #: Where it is reached, and the session; both empty while the link is broken.
        self.address = b""
        self.session = ""
        #: Whether this broker connected to it, and not the other way round.
        self.is_dialled = False
        self.since = 0.0
        self.heard_at = 0.0
        self.beat_at = 0.0
        #: What it offers, by service; only what is taken from it.
        self.offers: dict[str, Offer] = {}
        #: The services that are registered as workers, as they were offered; None: to be
        #: registered again.
        self._registered: dict[str, Offer | None] = {}
        #: The jobs that were sent to it: service, attempt, and when it last reported.
        self.jobs: dict[JobId, tuple[str, int, float]] = {}
        #: The attempts that it polls for, until the core has answered.
        self.polled: dict[JobId, int] = {}
        #: What it was offered last.
        self.told: tuple[Offer, ...] | None = None
        #: Jobs of which it was told to have them, until the core has said what became of them.
        self.checking: set[JobId] = set()

    @property
    def client(self) -> PeerId:
        """The id under which it submits jobs here."""
        return peer_id(NAME, self.name)

    @property
    def is_present(self) -> bool:
        """Whether it has a session, or had one just now."""
        return bool(self.session or self._registered)

    def worker(self, service: str) -> PeerId:
        """Return the id of one of its services as a worker."""
        return peer_id(NAME, worker_name(self.name, service))

    def begin(self, address: bytes, session: str, now: float, *, is_dialled: bool) -> None:
        """Begin a session. Its workers are still registered, and register again."""
        self.address, self.session, self.is_dialled = address, session, is_dialled
        self.since = self.heard_at = now
        self.told = None
        self.checking.clear()
        self.polled.clear()
        # Registered again with the next offers, so that the core asks for the jobs it has.
        self._registered = dict.fromkeys(self._registered)

    def end(self, reason: str) -> list[Event]:
        """End the session; its jobs wait for it."""
        self.address, self.session = b"", ""
        self.offers, lost = {}, list(self._registered)
        self._registered = {}
        grace = self.terms.lease
        return [PeerLeft(self.worker(service), reason, grace) for service in lost]

    # --- what it offers -----------------------------------------------------------------------

    def take_offers(self, offers: Iterable[Offer], me: str) -> list[Event]:
        """Take everything that it offers; return what that changes."""
        usable = (o for o in offers if me not in o.route and self.terms.takes(o.service))
        self.offers = {o.service: o for o in usable}
        # A service that is gone stays a worker while the neighbour has jobs of it.
        busy = {service for service, _, _ in self.jobs.values()}
        events: list[Event] = []
        for service in {**self._registered, **self.offers, **dict.fromkeys(sorted(busy))}:
            events += self._update(service, service in busy)
        return events

    def _update(self, service: str, is_busy: bool) -> list[Event]:
        offer, before = self.offers.get(service), self._registered.get(service)
        if offer is not None or is_busy:
            now = offer or Offer(service, 0, [self.name])
            self._registered[service] = now
            return [self._joined(service, offer)] if before != now else []
        del self._registered[service]
        return [PeerLeft(self.worker(service), f"{self.name} no longer offers {service}")]

    def _joined(self, service: str, offer: Offer | None) -> WorkerJoined:
        """Return the registration of a service; without an offer it gets no new jobs."""
        credit = min(offer.slots, self.terms.credit) if offer is not None else 0
        # More jobs wait over there while they return quickly, so that one message carries many.
        waiting = str(self.terms.credit - credit if offer is not None else 0)
        return WorkerJoined(
            self.worker(service),
            worker_name(self.name, service),
            (ServiceName(service),) if offer is not None else (),
            credit=credit,
            credit_returns=True,
            labels={BROKER_LABEL: self.name, PREFETCH: waiting},
            can_cancel=True,
            dialect=NAME,
            rejoins_within=self.terms.lease,
            route=tuple(offer.route) if offer is not None else (self.name,),
        )

    # --- the jobs that it has -----------------------------------------------------------------

    def sent(self, job: JobId, worker: PeerId, attempt: int, now: float) -> None:
        """Note that a job was sent to it."""
        self.jobs[job] = (worker.removeprefix(self.worker("")), attempt, now)

    def was_sent(self, job: JobId, attempt: int) -> bool:
        """Tell whether an attempt was sent to it; if not, it still waits for the disk."""
        return job in self.jobs and self.jobs[job][1] == attempt

    def reported(self, job: JobId, now: float) -> PeerId:
        """Note news of a job; return the worker that has it."""
        service, attempt, _ = self.jobs.get(job, ("", 0, 0.0))
        if service:
            self.jobs[job] = (service, attempt, now)
        return self.worker(service) if service else self.client

    def ended(self, job: JobId) -> list[Event]:
        """Forget a job. A service that is not offered leaves with its last one."""
        service, _, _ = self.jobs.pop(job, ("", 0, 0.0))
        is_over = service and service in self._registered and service not in self.offers
        if not is_over or any(service == other for other, _, _ in self.jobs.values()):
            return []
        return self._update(service, is_busy=False)

    def silent_jobs(self, heard_before: float) -> list[tuple[JobId, int]]:
        """Return the jobs without news since then, with their attempts."""
        found = self.jobs.items()
        return [(job, attempt) for job, (_, attempt, at) in found if at <= heard_before]
