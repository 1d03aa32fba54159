"""A read-only snapshot of the broker, for management and dashboards: rows of plain values."""

from collections.abc import Collection

from dragoman.core.effects import JobStatus
from dragoman.core.jobs import Job
from dragoman.core.state import BrokerState, status_of
from dragoman.model.job import JobState
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.model.value import value


@value
class ServiceRow:
    """One service: who serves it and what waits."""

    name: ServiceName
    workers: int
    free: int
    queued: int
    queued_bytes: int
    running: int


@value
class WorkerRow:
    """One worker, connected or away."""

    name: WorkerName
    peer: PeerId
    dialect: str
    services: tuple[ServiceName, ...]
    status: str
    holding: int
    credit: int | None
    beats: int
    lease: float | None
    silent_for: float
    alive_for: float
    principal: str


@value
class ClientRow:
    """One client that was heard lately."""

    peer: PeerId
    jobs: int
    first_seen_at: float
    seen_at: float


@value
class Totals:
    """Counts since the ledger began, and what is open now."""

    records: int
    jobs: int
    open_jobs: int
    succeeded: int
    failed: int
    expired: int
    cancelled: int
    dead: int
    refused: int
    late: int
    requeued: int
    rejected: int
    undelivered: int
    is_draining: bool


def services(desk: BrokerState) -> list[ServiceRow]:
    """Return a row per service that has workers or waiting jobs."""
    names = dict.fromkeys([*desk.registry.pools, *desk.queues.services()])
    return [_service(desk, name) for name in sorted(names)]


def _service(desk: BrokerState, name: ServiceName) -> ServiceRow:
    pool = desk.registry.pools.get(name)
    queue = desk.queues.find(name)
    members = list(pool.members.values()) if pool else []
    running = sum(p.service == name for w in members for p in w.held.values())
    return ServiceRow(
        name,
        len(members),
        len(pool.ring) if pool else 0,
        queue.jobs + len(queue.unbound) if queue else 0,
        queue.bytes if queue else 0,
        running,
    )


def workers(desk: BrokerState) -> list[WorkerRow]:
    """Return a row per worker."""
    found = [(w, "alive") for w in desk.registry.workers.values()]
    found += [(w, "away") for w in desk.absent.values()]
    return [
        WorkerRow(
            w.name,
            w.peer,
            w.dialect,
            w.services,
            "draining" if w.is_draining else "blocked" if w.is_blocked else status,
            len(w.held),
            w.credit,
            w.beats,
            w.lease,
            desk.now - w.seen_at,
            desk.now - w.joined_at,
            w.principal,
        )
        for w, status in found
    ]


def clients(desk: BrokerState) -> list[ClientRow]:
    """Return a row per client, the one heard last at the end."""
    return [ClientRow(p, c.jobs, c.first_seen_at, c.seen_at) for p, c in desk.clients.items()]


def totals(desk: BrokerState) -> Totals:
    """Return the broker's counts."""
    counts = desk.store.counts
    return Totals(
        records=desk.store.last_seq,
        jobs=counts["submitted"],
        open_jobs=desk.store.open_jobs,
        **{
            name: counts[name]
            for name in (
                *(JobState.SUCCEEDED, JobState.FAILED, JobState.EXPIRED, JobState.CANCELLED),
                *(JobState.DEAD, "refused", "late", "requeued", "rejected", "undelivered"),
            )
        },
        is_draining=desk.is_draining,
    )


def job(desk: BrokerState, job_id: JobId) -> JobStatus | None:
    """Return how one job stands."""
    found: Job | None = desk.store.find(job_id)
    return status_of(found) if found else None


def jobs(
    desk: BrokerState,
    state: JobState | None = None,
    limit: int = 1000,
    without: Collection[str] = (),
    service: str = "",
) -> list[JobStatus]:
    """Return the newest jobs, optionally of one state or service, or of all services but some."""
    found: list[JobStatus] = []
    for each in reversed(desk.store.jobs.values()):
        is_wanted = each.service == service if service else each.service not in without
        if is_wanted and (state is None or each.state is state):
            found.append(status_of(each))
            if len(found) >= limit:
                break
    return found
