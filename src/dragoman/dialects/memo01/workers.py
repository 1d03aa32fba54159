"""The workers of a link: their parking slots and deadlines.

A memo01 worker has at most one open request, and the broker can send a message only as its answer.
So each worker has a *parking slot*. It holds the address of the open request (`PARKED`), or none
while the worker owes the next request: `OWES_HEARTBEAT` after a HEARTBEAT, `BUSY` after a JOB. A
JOB may wait for the next address.
"""

from enum import Enum
from heapq import heappop, heappush

from dragoman.dialects.base import Address
from dragoman.dialects.memo01.requests import connection_of
from dragoman.model.names import JobId, PeerId


class SlotState(Enum):
    """The state of a parking slot."""

    PARKED = "parked"  #: the request is open, the broker may answer it
    OWES_HEARTBEAT = "owing a HEARTBEAT"  #: the worker got a HEARTBEAT and owes one
    BUSY = "busy"  #: the worker got a JOB and owes a RESULT


class MemoWorker:
    """One worker and its parking slot."""

    __slots__ = (
        "address",
        "attempt",
        "connection",
        "due_at",
        "id",
        "is_converted",
        "is_gone",
        "is_unconfirmed",
        "job",
        "last_answer",
        "last_request",
        "peer",
        "pending",
        "ready_at",
        "run_until",
        "slot",
        "timer_at",
    )

    def __init__(self, id_: bytes, peer: PeerId, address: Address) -> None:
        self.id = id_
        self.peer = peer
        self.slot = SlotState.PARKED
        #: Address of its READY; the same address again is a resend.
        self.ready_at = address
        #: Address of its open request.
        self.address: Address | None = None
        #: Address of the request last_request last, and the answer: the request may be resent.
        self.last_request: Address | None = None
        self.last_answer = b""
        #: Its connection; None if that ended and the worker may come back on another.
        self.connection: bytes | None = None
        #: Whether its open request is a RESULT. An answer says that the result is on record.
        self.is_unconfirmed = False
        #: A JOB that waits for an address.
        self.pending: bytes | None = None
        self.job: JobId | None = None
        self.attempt = 0
        self.run_until: float | None = None
        #: Whether the job is a call that was converted from another dialect.
        self.is_converted = False
        self.due_at: float | None = None
        self.timer_at: float | None = None
        self.is_gone = False


class MemoWorkers:
    """All workers of one link, by ID, peer and connection, with one heap of deadlines."""

    def __init__(self) -> None:
        self.by_id: dict[bytes, MemoWorker] = {}
        self._by_peer: dict[PeerId, MemoWorker] = {}
        self._by_ready: dict[Address, MemoWorker] = {}
        #: Every live connection, with the IDs of its workers.
        self.live: dict[bytes, set[bytes]] = {}
        self._timers: list[tuple[float, int, MemoWorker]] = []
        self._order = 0

    def __len__(self) -> int:
        return len(self.by_id)

    def add_connection(self, connection: bytes) -> None:
        """Add a connection."""
        if connection not in self.live:
            self.live[connection] = set()

    def add(self, worker: MemoWorker) -> None:
        """Add a worker."""
        self.by_id[worker.id] = worker
        self._by_peer[worker.peer] = worker
        self._by_ready[worker.ready_at] = worker

    def of_peer(self, peer: PeerId) -> MemoWorker | None:
        """Return the worker with this peer id."""
        return self._by_peer.get(peer)

    def has_ready(self, address: Address) -> bool:
        """Return whether a registered worker's READY came from this address."""
        return address in self._by_ready

    def drop(self, worker: MemoWorker) -> None:
        """Forget a worker."""
        worker.is_gone = True
        del self.by_id[worker.id], self._by_peer[worker.peer], self._by_ready[worker.ready_at]
        if worker.connection is not None and worker.connection in self.live:
            self.live[worker.connection].discard(worker.id)

    def move(self, worker: MemoWorker, address: Address) -> None:
        """Set a worker's connection to that of this address."""
        connection = connection_of(address)
        if connection == worker.connection:
            return
        if worker.connection is not None and worker.connection in self.live:
            self.live[worker.connection].discard(worker.id)
        worker.connection = connection
        self.live[connection].add(worker.id)

    def end_connection(self, connection: bytes) -> list[MemoWorker]:
        """Forget a connection; return the workers that were on it."""
        ids = self.live.pop(connection, set())
        workers = [self.by_id[id_] for id_ in sorted(ids)]
        for worker in workers:
            worker.connection = None
        return workers

    # --- timers: at most one useful entry per worker, moved lazily -----------------------------

    def set_due(self, worker: MemoWorker, at: float | None) -> None:
        """Set a worker's deadline."""
        worker.due_at = at
        if at is not None and (worker.timer_at is None or at < worker.timer_at):
            self._push(worker, at)

    def _push(self, worker: MemoWorker, at: float) -> None:
        self._order += 1
        worker.timer_at = at
        heappush(self._timers, (at, self._order, worker))

    def next_due(self) -> float | None:
        """Return the earliest deadline in the heap."""
        return self._timers[0][0] if self._timers else None

    def pop_due(self, now: float) -> MemoWorker | None:
        """Return a worker whose deadline has passed, and clear it; None if there is none."""
        while self._timers and self._timers[0][0] <= now:
            at, _, worker = heappop(self._timers)
            if worker.is_gone or worker.timer_at != at:
                continue
            worker.timer_at = None
            if worker.due_at is not None and worker.due_at <= now:
                worker.due_at = None
                return worker
            self.set_due(worker, worker.due_at)
        return None
