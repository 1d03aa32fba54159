"""The replicated ledger: a stream on several servers is the truth, an SQLite file is a copy.

One commit of the writer is one message. It is published behind the last message that this process
knows, and is durable when a majority of the servers has it; then the copy gets it. A message in
doubt is settled before anything else is written. A leader whose place is taken gets `Fenced`.

A standby applies the messages of the leader with `apply`. The copy may be lost: it is filled again
from the stream.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Final, TypeVar

import apsw
import structlog

from dragoman.ledger import layout, reading, replica
from dragoman.ledger.base import (
    Fenced,
    LedgerDamaged,
    LedgerError,
    LedgerFull,
    LedgerUnavailable,
)
from dragoman.ledger.layout import Origin, Transaction
from dragoman.ledger.publication import Publication
from dragoman.ledger.replica import Place
from dragoman.ledger.reseed import restored_messages
from dragoman.ledger.retention import require_position
from dragoman.ledger.rows import to_records
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.ledger.stream import Stream, StreamMessage
from dragoman.ledger.stream_codec import (
    Appended,
    CheckpointMoved,
    LedgerMessage,
    Retained,
    decode,
    encode,
)
from dragoman.ledger.writer import Batch
from dragoman.model.record import Record
from dragoman.model.value import value

log = structlog.get_logger("dragoman.ledger")

T = TypeVar("T")

#: Seconds until an append that is in doubt is reported; it is tried again after that.
PATIENCE: Final = 4.0
#: Seconds between two attempts: the first, and the longest.
_PAUSE: Final = (0.02, 0.5)
#: Seconds to wait for a message that the stream is known to have.
_NEXT: Final = 2.0
_HINT: Final = "check the NATS servers of the cluster: a majority must run and reach each other"


@value
class Applied:
    """What a message changed: its records, and whether the copy began anew with it."""

    records: Sequence[Record] = ()
    is_new_start: bool = False


class ReplicatedLedger(SqliteLedger):
    """The copy at a path, and the stream behind it. Reads are answered from the copy."""

    #: A node that joins later gets only what the stream has, so no record is kept outside of it.
    can_pin = False

    def __init__(
        self,
        path: str | Path,
        stream: Stream,
        key: bytes = b"",
        trusted: tuple[int, str] | None = None,
        patience: float = PATIENCE,
    ) -> None:
        """Open the copy, or create it; `catch_up` then fills it."""
        super().__init__(path, key, trusted)
        self.stream = stream
        self._patience = patience
        #: The epoch of this process as a leader; 0: it is a standby.
        self.epoch = 0
        #: Published, and not known to be stored and copied.
        self._unsettled: tuple[Publication, LedgerMessage] | None = None
        self._fenced: Fenced | None = None
        #: The newest record, and its checksum, whose append has returned. More may be durable:
        #: appends that were in doubt. Their callers try them again.
        self._returned = self._durable
        self._closing = Event()
        try:
            self._place = self._on_writer(
                lambda: replica.prepare(self._connection, self._durable[0])
            )
        except BaseException:
            self._close()
            raise

    @property
    def place(self) -> Place:
        """The last applied message of the stream, and its epoch."""
        return self._place

    # following

    def apply(self, message: StreamMessage) -> Applied:
        """Apply the next message of the stream to the copy."""
        self._require_open()
        return self._on_writer(lambda: self._guarded(lambda: self._apply(message)))

    def catch_up(self) -> None:
        """Apply everything that the stream has. Raises LedgerUnavailable if that is not known."""
        while not self.is_caught_up():
            if not self.follow(_NEXT):
                raise LedgerUnavailable("the ledger's stream does not deliver its messages", _HINT)

    def follow(self, at_most: float) -> list[Applied]:
        """Apply the next messages; wait for them up to `at_most` seconds."""
        found = self._asked(lambda: self.stream.follow(self._place.stream, at_most))
        return [self.apply(message) for message in found]

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except (TimeoutError, ConnectionError) as error:
            raise LedgerUnavailable(f"the ledger's stream does not answer: {error}", _HINT) from (
                error
            )

    def is_caught_up(self) -> bool:
        """Tell whether the copy has everything; raise LedgerUnavailable if that is not known."""
        last, place = self._asked(self.stream.last_sequence), self._place.stream
        if last < place:  # the server that answered may be behind
            raise LedgerUnavailable(
                f"{self.path}: the copy has message {place}, the servers say that the stream ends"
                f" at {last}",
                "if this stays, the stream has lost messages or is another one: restore a backup of"
                " the servers",
            )
        return last == place

    def _apply(self, found: StreamMessage) -> Applied:
        if found.last <= self._place.stream:
            return Applied()
        message = decode(found.data)
        if self.is_restored:
            raise LedgerError(
                f"{self.path} was restored, but the stream of the cluster has records already: "
                "stop all nodes, empty their data folders, restore again and start this node first"
            )
        is_new_start = not self._follows(message)
        if is_new_start:
            self._start_anew(message)
        self._store(message, found.first, found.last)
        rows = message.rows if isinstance(message, Appended) else ()
        return Applied(to_records([row[:-3] for row in rows]), is_new_start)

    def _follows(self, message: LedgerMessage) -> bool:
        """Tell whether a message continues the copy; if not, messages between were purged."""
        if message.after == self._place.stream:
            if isinstance(message, Appended) and (message.first, message.chain, message.link) != (
                self._durable[0] + 1,
                self._durable[1],
                self._link,
            ):
                raise LedgerDamaged(
                    f"{self.path}: the copy differs from the stream at record {message.first}",
                    message.first,
                    message.last,
                )
            return True
        return False

    def _start_anew(self, message: LedgerMessage) -> None:
        """Empty the copy; continue with the oldest message of the stream."""
        if isinstance(message, CheckpointMoved):
            raise LedgerDamaged(f"{self.path}: the stream does not begin with records", 0, 0)
        if self.last_seq:
            log.warning(
                "the copy of the ledger is filled anew: the messages after it were purged",
                copy_ended_at=self.last_seq,
                stream_begins_at=message.first,
            )
        origin = Origin(message.first, message.chain)
        with Transaction(self._connection):
            replica.empty(self._connection, origin, message.link)
        self._origin, self._link = origin, message.link
        self._set_durable(origin.first - 1, origin.chain)

    # leading

    def lead(self) -> int:
        """Begin to write as the next leader; return the epoch. The first write is the fence."""
        self.epoch = self._place.epoch + 1
        return self.epoch

    @property
    def is_restored(self) -> bool:
        """Whether the copy comes from a backup, and is in no stream yet."""
        return not self._place.stream and self._durable[0] > 0

    def publish_restored(self) -> None:
        """As the leader of an empty stream, write the restored records to it."""
        if self.is_restored:
            log.info("the restored ledger is written to the stream", records=self.last_seq)
            self._on_writer(self._publish_restored)

    def _publish_restored(self) -> None:
        for message in restored_messages(self._connection, self.epoch):
            after = self._place.stream
            if isinstance(message, Appended):
                message.after = after
            last = self._until_stored(Publication(encode(message), after))
            place = Place(last, self.epoch)
            with Transaction(self._connection):
                replica.move_to(self._connection, place)
                if isinstance(message, Appended):
                    replica.note_append(self._connection, message.first, after + 1)
            self._place = place

    def checkpoint(self, name: str, seq: int) -> None:
        """Store, on a majority of the servers, how far a named reader has read."""
        self._require_open()
        require_position(name, seq, self.last_seq)
        self._call(lambda: self._write(lambda: self._moved(name, seq)))

    def forget_checkpoint(self, name: str) -> None:
        """Remove the checkpoint of a reader that will not come back."""
        self._require_open()
        self._call(lambda: self._write(lambda: self._moved(name, None)))

    def _moved(self, name: str, seq: int | None) -> CheckpointMoved:
        return CheckpointMoved(after=self._place.stream, epoch=self.epoch, name=name, seq=seq)

    def _commit(self, batches: list[Batch]) -> None:
        super()._commit(batches)
        self._returned = self._durable

    def _on_failure(self) -> None:
        """Expect the same batches again, even if they turn out to be stored."""
        self._tail = self._returned

    def _insert(self, batches: list[Batch]) -> None:
        self._settle()
        if new := [batch for batch in batches if not self._is_known(batch)]:
            self._write(lambda: self._appended(new))

    def _is_known(self, batch: Batch) -> bool:
        """Tell whether a batch that was in doubt turned out to be stored."""
        if batch.last > self._durable[0]:
            return False
        if self._connection.execute(reading.CHAIN, (batch.last,)).get != batch.chain:
            raise LedgerError(f"another batch was written in place of record {batch.last}")
        return True

    def _appended(self, batches: list[Batch]) -> Appended:
        last, chain = self._durable
        return Appended(
            after=self._place.stream,
            epoch=self.epoch,
            first=last + 1,
            last=batches[-1].last,
            chain=chain,
            link=self._link,
            rows=self._linked(batches),
            bodies=[(seq, blob) for batch in batches for seq, blob in batch.bodies],
        )

    def _remove(self, last: int, kept: Sequence[int]) -> None:
        self._write(lambda: self._retained(last))
        place = self._place
        needed = replica.first_needed(self._connection, last + 1)
        before = place.stream if needed is None or last == self.last_seq else needed
        # What is not purged now is purged after the next removal.
        with suppress(OSError):
            self.stream.purge(before)
            replica.forget_appends(self._connection, before)

    def _retained(self, last: int) -> Retained:
        return Retained(
            after=self._place.stream,
            epoch=self.epoch,
            first=last + 1,
            chain=self._connection.execute(reading.CHAIN, (last,)).get,
            link=layout.last_link(self._connection, last),
            checkpoints=layout.read_checkpoints(self._connection),
        )

    def _write(self, make: Callable[[], LedgerMessage]) -> None:
        """Publish a message behind all others, then write it to the copy."""
        self._settle()
        if not self.epoch:
            raise LedgerError(f"{self.path}: this node is a standby and writes nothing")
        message = make()
        self._unsettled = (Publication(encode(message), self._place.stream), message)
        self._settle()

    def _settle(self) -> None:
        """Wait until the message under way is stored, and write it to the copy."""
        if self._fenced is not None:
            raise self._fenced
        if self._unsettled is not None:
            publication, message = self._unsettled
            last = self._until_stored(publication)
            self._copy(message, publication.after + 1, last)
            self._unsettled = None

    def _until_stored(self, publication: Publication) -> int:
        until, (pause, longest) = monotonic() + self._patience, _PAUSE
        is_first = True
        while (last := self._attempt(publication, is_first)) is None:
            is_first = False
            if monotonic() >= until or self._closing.wait(pause):
                raise LedgerUnavailable(
                    f"message {publication.after + 1} of the ledger's stream is in doubt: no"
                    " majority has confirmed it",
                    _HINT,
                )
            pause = min(pause * 2, longest)
        return last

    def _attempt(self, publication: Publication, is_first: bool) -> int | None:
        try:
            return publication.attempt(self.stream)
        except Fenced as error:
            self._fenced, self._unsettled = error, None
            raise
        except OSError as error:
            if not is_first:  # an earlier attempt may be stored
                return None
            self._unsettled = None
            raise LedgerFull(
                f"the ledger's stream is full: {error}", "raise the limits of the NATS account"
            ) from error

    def _copy(self, message: LedgerMessage, first: int, last: int) -> None:
        """Write a stored message to the copy. If that fails, it is not lost: the stream has it."""
        try:
            self._store(message, first, last)
        except (apsw.FullError, apsw.IOError) as error:
            raise LedgerUnavailable(
                f"{self.path}: the servers have the records, the copy cannot be written: {error}",
                f"free some space on the disk of {self.path.parent}",
            ) from error

    # the copy

    def _store(self, message: LedgerMessage, first: int, last: int) -> None:
        """Write a message and its place to the copy, in one transaction."""
        place = Place(last, message.epoch)
        with Transaction(self._connection):
            replica.move_to(self._connection, place)
            if isinstance(message, Appended):
                self._write_rows(message.rows, message.bodies)
                replica.note_append(self._connection, message.first, first)
            elif isinstance(message, CheckpointMoved):
                layout.move_checkpoint(self._connection, message.name, message.seq)
            else:
                layout.remove_before(self._connection, Origin(message.first, message.chain))
                for name, seq in message.checkpoints.items():
                    layout.write_checkpoint(self._connection, name, seq)
        self._place = place
        if isinstance(message, Appended):
            self._link = message.rows[-1][-1]
            self._set_durable(message.last, message.rows[-1][-3])
        elif isinstance(message, Retained):
            self._origin = Origin(message.first, message.chain)

    def _set_durable(self, last: int, chain: int) -> None:
        self._durable = (last, chain)
        self._durable_link = (last, self._link)
        if not self.epoch:  # a leader numbers its batches itself
            self._tail = self._returned = self._durable
        with suppress(OSError):
            self._head.write(last)

    def _close(self) -> None:
        self._closing.set()
        super()._close()

    def _on_writer(self, function: Callable[[], T]) -> T:
        return self._writer.call(function).result()


def open_replica(
    path: Path, stream: Stream, key: bytes = b"", trusted: tuple[int, str] | None = None
) -> ReplicatedLedger:
    """Open the copy; one that is damaged is set aside, and filled again from the stream."""
    try:
        return ReplicatedLedger(path, stream, key, trusted)
    except LedgerDamaged as error:
        aside = replica.set_aside(path)
        log.warning(
            "the copy of the ledger is damaged; it is filled again from the stream",
            error=str(error),
            kept_as=str(aside),
        )
        return ReplicatedLedger(path, stream, key)
