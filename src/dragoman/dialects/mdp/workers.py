"""The workers of an MDP link and the requests that each of them holds.

The client address in a request to a worker is opaque, and a reply returns it. So the broker puts
the attempt and the job there: every reply, also a late one, names its assignment.
"""

from dragoman.dialects.base import is_unnamed
from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.model.value import value


@value
class MdpAssignment:
    """One attempt of a job that a worker holds."""

    job: JobId
    attempt: int
    service: ServiceName

    @property
    def envelope(self) -> bytes:
        """The client address frame of its request."""
        return f"{self.attempt}/{self.job}".encode()


class MdpWorker:
    """One registered worker."""

    def __init__(self, peer: PeerId, service: bytes, version: int, has_notes: bool) -> None:
        self.peer = peer
        self.service = service
        self.version = version
        #: It is our own: it declares its credit, can stop a job, and reports.
        self.has_notes = has_notes
        #: What it holds, by the client address frame.
        self.held: dict[bytes, MdpAssignment] = {}
        #: When each assignment was sent, reported on, or last polled for.
        self._active_at: dict[bytes, float] = {}
        #: The name of the open question of each job, as the worker gave it.
        self.questions: dict[JobId, str] = {}

    def hold(self, found: MdpAssignment, now: float) -> None:
        """Add an assignment. A new attempt of a job replaces the old one."""
        if (old := self.find(found.job)) is not None:
            self.drop(old)
        self.held[found.envelope] = found
        self._active_at[found.envelope] = now

    def drop(self, found: MdpAssignment) -> None:
        """Remove an assignment."""
        self.held.pop(found.envelope, None)
        self._active_at.pop(found.envelope, None)
        self.questions.pop(found.job, None)

    def touch(self, found: MdpAssignment, now: float) -> None:
        """Postpone the next poll: the worker just reported on this job."""
        self._active_at[found.envelope] = now

    def find(self, job: JobId) -> MdpAssignment | None:
        """Return the assignment of a job."""
        return next((each for each in self.held.values() if each.job == job), None)

    def overdue(self, before: float, now: float) -> list[MdpAssignment]:
        """Return the assignments that were silent since `before`, and mark them as polled now."""
        found = [key for key, at in self._active_at.items() if at <= before]
        self._active_at |= dict.fromkeys(found, now)
        return [self.held[key] for key in found]


class MdpWorkers:
    """All workers of a link by address."""

    def __init__(self) -> None:
        self.present: dict[bytes, MdpWorker] = {}
        #: What workers hold that did not register since the broker started.
        self._restored: dict[bytes, MdpWorker] = {}

    def join(
        self, address: bytes, peer: PeerId, service: bytes, version: int, has_notes: bool
    ) -> MdpWorker:
        """Register a worker. Our own worker that registers again keeps its assignments."""
        worker = MdpWorker(peer, service, version, has_notes)
        old = self.present.get(address) or self._restored.pop(address, None)
        if old is not None and has_notes:
            worker.held, worker._active_at = old.held, old._active_at
            worker.questions = old.questions
        self.present[address] = worker
        return worker

    def restore(self, address: bytes, peer: PeerId, found: MdpAssignment, now: float) -> None:
        """Add an assignment that an earlier process sent."""
        worker = self._restored.setdefault(address, MdpWorker(peer, b"", 2, False))
        worker.hold(found, now)

    def find(self, address: bytes) -> MdpWorker | None:
        """Return the worker at an address, also one that did not register again yet."""
        return self.present.get(address) or self._restored.get(address)

    def find_unnamed(self, envelope: bytes) -> MdpWorker | None:
        """Find the absent worker without an identity of its own that holds this request.

        Its transport made up the address, so the same worker has another one when it reconnects.
        """
        unnamed = (w for a, w in self._restored.items() if is_unnamed(a))
        return next((w for w in unnamed if envelope in w.held), None)

    def leave(self, address: bytes) -> MdpWorker | None:
        """Remove a worker, and return it if it was registered."""
        return self.present.pop(address, None)
