"""Planted bugs of clusters: each breaks one rule of the replicated ledger or of a take-over."""

from collections.abc import Iterator
from typing import Final

from dragoman.ledger.base import LedgerUnavailable
from dragoman.ledger.publication import Publication
from dragoman.ledger.replicated import Applied, ReplicatedLedger
from dragoman.ledger.stream import Stream, StreamMessage
from dragoman.ledger.stream_codec import decode
from dragoman.server.lease import Lease
from dragoman.testing.bugs.planting import Bugs, replaced
from dragoman.testing.cluster_nodes import ClusterSimNode

BUGS: Final = Bugs()


@BUGS.add
def lease_without_fence() -> Iterator[None]:
    """A leader continues at the end of the stream, whoever wrote there."""

    def attempt(publication: Publication, stream: Stream) -> int | None:
        try:
            return stream.publish(publication.data, publication.id, stream.last_sequence())
        except (TimeoutError, ConnectionError):
            return None

    with replaced(Publication, "attempt", attempt):
        yield


@BUGS.add
def acknowledged_before_the_majority() -> Iterator[None]:
    """An append without an answer counts as stored; the next one is published behind it."""

    def until_stored(ledger: ReplicatedLedger, publication: Publication) -> int:
        stored = ledger._attempt(publication, True)
        return publication.after + 1 if stored is None else stored

    with replaced(ReplicatedLedger, "_until_stored", until_stored):
        yield


@BUGS.add
def lease_believed_for_ever() -> Iterator[None]:
    """A leader does not notice that its lease has ended: two serve at once."""
    with replaced(Lease, "is_held", property(lambda lease: lease._held_until > 0.0)):
        yield


@BUGS.add
def lease_taken_without_asking() -> Iterator[None]:
    """A standby takes over while another node leads."""

    def take(lease: Lease, epoch: int) -> bool:
        if (found := lease._bucket.get("leader")) is not None:
            lease._bucket.delete("leader", found[1])
        return old(lease, epoch)

    old = Lease.take
    no_holder = lambda lease: None  # noqa: E731
    with replaced(Lease, "take", take), replaced(Lease, "holder", no_holder):
        yield


@BUGS.add
def replayed_message_applied_twice() -> Iterator[None]:
    """A standby does not notice that a message was delivered before."""

    def apply(ledger: ReplicatedLedger, found: StreamMessage) -> Applied:
        ledger._place = type(ledger._place)(decode(found.data).after, ledger._place.epoch)
        return old(ledger, found)

    old = ReplicatedLedger._apply
    with replaced(ReplicatedLedger, "_apply", apply):
        yield


@BUGS.add
def hand_over_drops_a_waiting_send() -> Iterator[None]:
    """A leader hands over while replies wait for their records."""
    with replaced(ClusterSimNode, "_is_all_written", lambda node: True):
        yield


@BUGS.add
def lease_released_before_the_last_write() -> Iterator[None]:
    """A leader that hands over lets a standby begin, and then writes."""

    def end(node: ClusterSimNode) -> None:
        node.lease.release()
        node._after(0.3, old, node)

    old = ClusterSimNode._end
    with replaced(ClusterSimNode, "_end", end):
        yield


@BUGS.add
def in_doubt_taken_as_failed() -> Iterator[None]:
    """An append without an answer counts as not stored, and is forgotten."""

    def until_stored(ledger: ReplicatedLedger, publication: Publication) -> int:
        stored = ledger._attempt(publication, True)
        if stored is None:
            ledger._unsettled = None
            raise LedgerUnavailable("taken as not stored")
        return stored

    with replaced(ReplicatedLedger, "_until_stored", until_stored):
        yield


@BUGS.add
def in_doubt_tried_with_another_id() -> Iterator[None]:
    """A message is not recognised when it is found at its place."""

    def attempt(publication: Publication, stream: Stream) -> int | None:
        publication.id += "+"
        return old(publication, stream)

    old = Publication.attempt
    with replaced(Publication, "attempt", attempt):
        yield


@BUGS.add
def id_not_derived_from_the_content() -> Iterator[None]:
    """An id only names the place, so the message of another leader is taken for the own one."""

    def begin(publication: Publication, data: bytes, after: int) -> None:
        old(publication, data, after)
        publication.id = f"message {after}"

    old = Publication.__init__
    with replaced(Publication, "__init__", begin):
        yield


@BUGS.add
def publishes_pipelined() -> Iterator[None]:
    """The next message is published while the one before it is in doubt."""

    def settle(ledger: ReplicatedLedger) -> None:
        try:
            old(ledger)
        except LedgerUnavailable:
            ledger._unsettled = None
            place = ledger._place
            ledger._place = type(place)(place.stream + 1, place.epoch)
            raise

    old = ReplicatedLedger._settle
    with replaced(ReplicatedLedger, "_settle", settle):
        yield


@BUGS.add
def purged_messages_not_missed() -> Iterator[None]:
    """A standby continues behind a purge as if it had every message."""
    with replaced(ReplicatedLedger, "_follows", lambda ledger, message: True):
        yield


@BUGS.add
def epoch_kept() -> Iterator[None]:
    """A new leader writes with the epoch of the one before it."""

    def lead(ledger: ReplicatedLedger) -> int:
        ledger.epoch = max(1, ledger.place.epoch)
        return ledger.epoch

    with replaced(ReplicatedLedger, "lead", lead):
        yield
