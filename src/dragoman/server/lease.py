"""The lease: which node leads, as a key with a time to live that its holder renews.

The lease is a hint. It keeps two leaders from serving at once, but the ledger does not rely on it:
there the first write of a new leader fences the old one. The holder counts the time from before its
last successful renewal, so it stops before another node can take the lease.
"""

import os
import threading
from collections.abc import Callable
from typing import Final, Protocol

import msgspec
import structlog

from dragoman.model.value import value
from dragoman.server.cluster_clock import boot_time

log = structlog.get_logger("dragoman.lease")

#: Seconds until a lease that is not renewed is gone.
TTL: Final = 2.0
#: The key of the lease to lead; other leases have keys of their own.
_LEADER: Final = "leader"
#: The part of its time to live during which the holder acts, and after which it renews.
_ACTS: Final = 0.75
_RENEWS: Final = 0.2


class LeaseLost(Exception):
    """This node no longer holds the lease, or cannot know whether it does."""


class LeaseBucket(Protocol):
    """Keys with a time to live. Raises TimeoutError and ConnectionError: outcome unknown."""

    def get(self, key: str) -> tuple[bytes, int] | None:
        """Return value and revision."""
        ...

    def create(self, key: str, value: bytes) -> int | None:
        """Create a key; return its revision, or None if it exists."""
        ...

    def update(self, key: str, value: bytes, revision: int) -> int | None:
        """Replace a revision; return the new one, or None if the key has another revision."""
        ...

    def delete(self, key: str, revision: int) -> bool:
        """Delete a key that has this revision."""
        ...


@value
class LeaseHolder:
    """The node that leads: its epoch, and the endpoints of its links once they are open."""

    node: str
    epoch: int
    endpoints: dict[str, str]
    #: Tells processes of one node apart.
    process: str = ""


class Lease:
    """One node's view of the lease. One thread at a time uses it; `is_held` any."""

    def __init__(
        self,
        bucket: LeaseBucket,
        node: str,
        ttl: float = TTL,
        clock: Callable[[], float] = boot_time,
        key: str = _LEADER,
    ) -> None:
        self.node = node
        self._key = key
        self.ttl = ttl
        self._bucket = bucket
        self._clock = clock
        self._process = os.urandom(8).hex()
        self._value = b""
        self._revision = 0
        #: Until when this process may act as the leader.
        self._held_until = 0.0

    @property
    def is_held(self) -> bool:
        """Whether this process holds the lease, and no other can have it."""
        return self._clock() < self._held_until

    def holder(self) -> LeaseHolder | None:
        """Return who leads; None: no node. Raises TimeoutError and ConnectionError."""
        found = self._bucket.get(self._key)
        return None if found is None else _parse(found[0])

    def take(self, epoch: int) -> bool:
        """Take the lease if it is free."""
        self._value = self._encode(epoch, {})
        return self._note(lambda: self._bucket.create(self._key, self._value))

    def announce(self, epoch: int, endpoints: dict[str, str]) -> bool:
        """Tell the endpoints, with a renewal."""
        self._value = self._encode(epoch, endpoints)
        return self.renew()

    def renew(self) -> bool:
        """Renew; tell whether the lease is held. Raises LeaseLost if another process has it."""
        if self._note(lambda: self._bucket.update(self._key, self._value, self._revision)):
            return True
        try:
            found = self._bucket.get(self._key)
        except OSError:
            return self.is_held
        holder = None if found is None else _parse(found[0])
        if found is None or holder is None or holder.process != self._process:
            self._held_until = 0.0
            raise LeaseLost(f"the lease belongs to {holder.node if holder else 'no node'}")
        # A renewal was stored, though its answer was lost.
        self._revision = found[1]
        self._note(lambda: self._bucket.update(self._key, self._value, self._revision))
        return self.is_held

    def release(self) -> None:
        """Give the lease up, so that another node can take it at once."""
        self._held_until = 0.0
        if self._revision:
            try:
                self._bucket.delete(self._key, self._revision)
            except OSError as error:
                log.warning("the lease was not released; it ends by itself", error=str(error))
        self._revision = 0

    def _note(self, write: Callable[[], int | None]) -> bool:
        """Write; if it succeeds, hold the lease from the moment before."""
        started = self._clock()
        try:
            revision = write()
        except OSError:
            return False
        if revision is None:
            return False
        self._revision = revision
        self._held_until = started + self.ttl * _ACTS
        return True

    def _encode(self, epoch: int, endpoints: dict[str, str]) -> bytes:
        return msgspec.json.encode(LeaseHolder(self.node, epoch, endpoints, self._process))


def _parse(content: bytes) -> LeaseHolder | None:
    """Read a lease; None if it is damaged: then it is taken over when it ends."""
    try:
        return msgspec.json.decode(content, type=LeaseHolder)
    except msgspec.MsgspecError:
        return LeaseHolder("?", 0, {})


class LeaseKeeper:
    """Renews a lease on a thread of its own; says once when it is lost."""

    def __init__(self, lease: Lease, epoch: int, on_lost: Callable[[str], None]) -> None:
        self._lease = lease
        self._epoch = epoch
        self._on_lost = on_lost
        self._endpoints: dict[str, str] = {}
        self._is_stopping = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._thread.start()

    def announce(self, endpoints: dict[str, str]) -> None:
        """Tell other nodes the endpoints of this leader, soon."""
        with self._changed:
            self._endpoints = dict(endpoints)
            self._changed.notify()

    def stop(self) -> None:
        """Stop renewing, and release the lease."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join()
        self._lease.release()

    def _run(self) -> None:
        known: dict[str, str] = {}
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._is_stopping or self._endpoints != known,  # noqa: B023
                    self._lease.ttl * _RENEWS,
                )
                if self._is_stopping:
                    return
                endpoints = self._endpoints
            if reason := self._renew(endpoints):
                self._on_lost(reason)
                return
            known = endpoints

    def _renew(self, endpoints: dict[str, str]) -> str:
        """Renew; return why the lease is lost, if it is."""
        try:
            if self._lease.announce(self._epoch, endpoints) or self._lease.is_held:
                return ""
        except LeaseLost as error:
            return str(error)
        return f"it could not be renewed for {self._lease.ttl * _ACTS:g} s"
