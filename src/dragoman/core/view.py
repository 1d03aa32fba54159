"""Read-only rows about the broker, for management and dashboards."""

from collections.abc import Collection, Mapping

from dragoman.core.effects import JobStatus
from dragoman.core.jobs import Job
from dragoman.core.registry import RegisteredWorker
from dragoman.core.state import BrokerState, status_of
from dragoman.model.job import JobState
from dragoman.model.labels import own_labels
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.model.value import field, value


@value
class ServiceRow:
    """One service: its workers and its queue."""

    name: ServiceName
    workers: int
    free: int
    queued: int
    queued_bytes: int
    running: int
    #: Jobs that may not start yet.
    delayed: int = 0
    is_paused: bool = False


@value
class WorkerRow:
    """One worker, connected or absent."""

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
    #: The labels that its owner gave it; those of the SDK itself are left out.
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)


@value
class ClientRow:
    """One client that was seen lately."""

    peer: PeerId
    jobs: int
    first_seen_at: float
    seen_at: float


@value
class TroubleRow:
    """One thing that is wrong with the broker now."""

    #: The part of the broker: `ledger`, or the name of a background task.
    part: str
    #: The cause in a few words, and for operators with paths and what to do.
    reason: str
    detail: str
    since: float
    #: Whether the broker can acknowledge nothing because of it.
    is_blocking: bool


@value
class ClusterMemberRow:
    """One node of a cluster, as it answered lately."""

    node: str
    role: str
    #: The newest record of its copy, and the messages that the copy has not applied.
    last: int
    lag: int


@value
class ClusterState:
    """All nodes of a cluster, and the servers with its stream."""

    #: The number of nodes; those that answered.
    size: int = 0
    members: tuple[ClusterMemberRow, ...] = ()
    #: The server that leads the stream, those with a complete copy, and those without.
    stream_leader: str = ""
    stream_current: tuple[str, ...] = ()
    stream_behind: tuple[str, ...] = ()

    @property
    def has_quorum(self) -> bool:
        """Whether a majority of the servers has a complete copy."""
        servers = len(self.stream_current) + len(self.stream_behind)
        return 2 * len(self.stream_current) > servers


@value
class ClusterRow:
    """This broker as a node of a cluster."""

    node: str
    #: leader, standby or neither.
    role: str
    #: The node that leads, and the number of its term; empty and 0: none is known.
    leader: str
    epoch: int
    #: Messages of the stream that the copy of this node has not applied.
    lag: int
    state: ClusterState = ClusterState()


@value
class Totals:
    """Counts since the ledger began, and the jobs that are open."""

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


def services(state: BrokerState) -> list[ServiceRow]:
    """Return a row per service that has workers or queued jobs."""
    paused = state.store.queue.paused
    names = dict.fromkeys([*state.registry.pools, *state.queues.services(), *paused])
    return [_service(state, name) for name in sorted(names)]


def _service(state: BrokerState, name: ServiceName) -> ServiceRow:
    pool = state.registry.pools.get(name)
    queue = state.queues.find(name)
    members = list(pool.members.values()) if pool else []
    running = sum(p.service == name for w in members for p in w.held.values())
    return ServiceRow(
        name,
        len(members),
        len(pool.by_last_use) if pool else 0,
        queue.jobs + len(queue.unbound) if queue else 0,
        queue.bytes if queue else 0,
        running,
        len(queue.delayed) if queue else 0,
        name in state.store.queue.paused,
    )


def workers(state: BrokerState) -> list[WorkerRow]:
    """Return a row per worker."""
    found = [(w, "alive") for w in state.registry.workers.values()]
    found += [(w, "away") for w in state.absent.values()]
    return [
        WorkerRow(
            w.name,
            w.peer,
            w.dialect,
            w.services,
            _standing(w, status),
            len(w.held),
            w.credit,
            w.beats,
            w.lease,
            state.now - w.seen_at,
            state.now - w.joined_at,
            w.principal,
            own_labels(w.labels),
        )
        for w, status in found
    ]


def _standing(worker: RegisteredWorker, status: str) -> str:
    if status == "away":
        return status
    if worker.is_drained:
        return "drained"
    return "draining" if worker.is_draining else "blocked" if worker.is_blocked else status


def clients(state: BrokerState) -> list[ClientRow]:
    """Return a row per client, the most recently seen last."""
    return [ClientRow(p, c.jobs, c.first_seen_at, c.seen_at) for p, c in state.clients.items()]


def totals(state: BrokerState) -> Totals:
    """Return the broker's counts."""
    counts = state.store.counts
    return Totals(
        records=state.store.last_seq,
        jobs=counts["submitted"],
        open_jobs=state.store.open_jobs,
        **{
            name: counts[name]
            for name in (
                *(JobState.SUCCEEDED, JobState.FAILED, JobState.EXPIRED, JobState.CANCELLED),
                *(JobState.DEAD, "refused", "late", "requeued", "rejected", "undelivered"),
            )
        },
        is_draining=state.is_draining,
    )


def job(state: BrokerState, job_id: JobId) -> JobStatus | None:
    """Return the status of one job."""
    found: Job | None = state.store.find(job_id)
    return status_of(found, state.gone(found)) if found else None


def jobs(
    state: BrokerState,
    job_state: JobState | None = None,
    limit: int = 1000,
    without: Collection[str] = (),
    service: str = "",
) -> list[JobStatus]:
    """Return the newest jobs, filtered by state and by service."""
    found: list[JobStatus] = []
    for each in reversed(state.store.jobs.values()):
        is_wanted = each.service == service if service else each.service not in without
        if is_wanted and (job_state is None or each.state is job_state):
            found.append(status_of(each, state.gone(each)))
            if len(found) >= limit:
                break
    return found
