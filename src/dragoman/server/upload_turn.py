"""Whose turn it is to copy the export of a cluster: one node at a time, by a lease.

Every node seals its own copy, so each could upload it. Two that write one target would overwrite
each other's manifest. The uploader that holds the lease of a target copies, the others wait. That
of a standby keeps the lease as long as it runs. That of the leader takes it only if no standby does
for a while, and gives it back after each copy: the leader has other work.

The lease is a hint, as that to lead is. The uploader checks it again before it writes the manifest.
"""

import json
import time
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Final

from dragoman.server.cluster_member import (
    LEASE_TTL,
    bucket_name,
    own_url,
    remembered_section,
    split_secret,
)
from dragoman.server.cluster_node import Role
from dragoman.server.cluster_settings import ClusterSection
from dragoman.server.lease import Lease, LeaseKeeper
from dragoman.server.member_channel import member_prefix
from dragoman.transports.jetstream_bucket import JetStreamBucket
from dragoman.transports.jetstream_connection import REQUEST, JetStreamConnection, JetStreamRefusal

#: Seconds that the leader leaves a free turn to the standbys.
LEAVES: Final = 10.0


class TurnLost(Exception):
    """Another node may copy now; nothing was published."""


class UploadTurn:
    """One uploader's view of whose turn it is."""

    def __init__(
        self,
        lease: Lease,
        is_leading: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._lease = lease
        self._is_leading = is_leading
        self._clock = clock
        self._close = close
        self._keeper: LeaseKeeper | None = None
        self._is_lost = False
        #: Since when the leader's uploader has seen that nobody copies.
        self._free_since: float | None = None

    def take(self, *, at_once: bool = False) -> bool:
        """Tell whether it is this uploader's turn; take it if it is free.

        `at_once`: also if this node leads. Raises TimeoutError and ConnectionError.
        """
        if self._keeper is not None and not self._is_lost:
            if at_once or not self._is_leading():
                return True
            self.give_back()  # its node leads since; a standby shall go on
        self._stop()
        if self._lease.holder() is not None:
            self._free_since = None
            return False
        if not at_once and self._is_leading() and not self._was_left():
            return False
        if not self._lease.take(0):
            return False
        self._is_lost, self._free_since = False, None
        self._keeper = LeaseKeeper(self._lease, 0, self._lose)
        return True

    def _was_left(self) -> bool:
        now = self._clock()
        if self._free_since is None:
            self._free_since = now
        return now - self._free_since >= LEAVES

    def _lose(self, why: str) -> None:
        self._is_lost = True

    @property
    def holder(self) -> str:
        """The node whose turn it is; empty if there is none. Raises as `take` does."""
        found = self._lease.holder()
        return "" if found is None else found.node

    def require(self) -> None:
        """Raise TurnLost if another node may copy now."""
        if self._keeper is None or self._is_lost or not self._lease.is_held:
            raise TurnLost("another node may copy to this target now; nothing was published")

    def copied(self) -> None:
        """Note that a copy is finished: the leader gives its turn back."""
        if self._keeper is not None and self._is_leading():
            self.give_back()

    def give_back(self) -> None:
        """Let another node copy."""
        self._stop()
        self._free_since = self._clock()

    def _stop(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.stop()

    def close(self) -> None:
        """Give the turn back and disconnect."""
        self._stop()
        self._close()


def find_turn(source: str, target: str) -> UploadTurn | None:
    """Return the turn for an export; None if it is not that of a node of a cluster.

    Raises ValueError, and ConnectionError if the NATS of the node does not answer.
    """
    folder = Path(source.removeprefix("file://"))
    section = None if "://" in str(folder) else remembered_section(folder.parent)
    return None if section is None else open_turn(section, folder.parent, target)


def open_turn(section: ClusterSection, data: Path, target: str) -> UploadTurn:
    """Connect to the NATS of a node, for the turns of one target."""
    servers, user, password = split_secret(own_url(section, data))
    name = f"dragoman upload {section.node}"
    connection = JetStreamConnection(servers, user=user, password=password, name=name)
    bucket = JetStreamBucket(connection, bucket_name(section.name))
    key = f"upload-{blake2b(target.rstrip('/').encode(), digest_size=8).hexdigest()}"
    lease = Lease(bucket, section.node, LEASE_TTL, key=key)
    return UploadTurn(lease, lambda: _leads(connection, section), close=connection.close)


def _leads(connection: JetStreamConnection, section: ClusterSection) -> bool:
    """Ask the broker of this node for its role; one that does not answer does not lead."""
    subject = f"{member_prefix(section.name)}.node.{section.node}"
    question = json.dumps({"kind": "status"}).encode()
    try:
        found = connection.run(connection.request(subject, question), REQUEST * 2)
    except (OSError, JetStreamRefusal):
        return False
    return bool(found.get("role") == Role.LEADER)
