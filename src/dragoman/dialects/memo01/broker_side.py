"""The broker's end of memo01: requests become events, effects become the answers to requests.

What lives here: which desk a message or an effect is for, who a peer is, and what both desks share,
the connections. What must not: what a JOB of a client means (`client_desk`), what a worker may say
when (`worker_desk`).

Silence is this protocol's only "no". Whatever is not answered here is on record: malformed
messages are raised for the loop to note, refused ones are `Noted`, faults are the core's records.
"""

from collections.abc import Callable, Iterable
from typing import Any

from dragoman.core.effects import Dismiss, Effect, SendBeat, SendReply, SendWork
from dragoman.dialects.base import Address, BodyCodecs, Frames, MalformedMessage, Send
from dragoman.dialects.memo01.body_codec import NAME
from dragoman.dialects.memo01.client_handler import MemoClientHandler, speaker_at
from dragoman.dialects.memo01.request_recovery import LoadBody, RecoveredRequests
from dragoman.dialects.memo01.requests import CONNECTION, connection_of
from dragoman.dialects.memo01.settings import MemoSettings
from dragoman.dialects.memo01.wire import MemoHeartbeat, MemoJob, MemoReady, MemoResult, decode
from dragoman.dialects.memo01.worker_handler import MemoWorkerHandler, Outcome, disconnect_unknown
from dragoman.dialects.memo01.workers import MemoWorkers
from dragoman.model.fault import Fault
from dragoman.model.record import Record


class MemoBrokerSide:
    """All peers of one memo01 link."""

    def __init__(
        self,
        ids: Callable[[], str],
        codecs: BodyCodecs,
        settings: MemoSettings | None = None,
        link: str = NAME,
    ) -> None:
        self.link = link
        self._settings = settings or MemoSettings()
        #: Who is on which connection: workers by their IDs, clients by being on a live one.
        self._table = MemoWorkers()
        self._clients = MemoClientHandler(link, ids(), codecs, self._settings, self._table.live)
        self._workers = MemoWorkerHandler(link, ids, self._table, codecs, self._settings)
        self._receivers: dict[type, Callable[[Address, Any, float], Outcome]] = {
            MemoReady: self._workers.ready,
            MemoResult: self._workers.result,
            MemoHeartbeat: self._workers.heartbeat,
        }
        self._writers: dict[type, Callable[[Any, float], list[Send]]] = {
            SendWork: self._send_work,
            SendReply: self._clients.render,
            SendBeat: self._workers.send_beat,
            Dismiss: self._workers.dismiss,
        }

    @property
    def resends(self) -> int:
        """How many requests were repeated while they were open or just answered."""
        return self._workers.resends + self._clients.resends

    def restore(self, records: Iterable[Record], load_body: LoadBody, now: float) -> None:
        """Know again the requests and assignments of an earlier process, from its records."""
        past = RecoveredRequests(self.link, records, now - self._settings.resend_window)
        self._clients.restore(past, load_body)
        self._workers.restore(past, load_body)

    def speaker(self, address: Address) -> str:
        """Name whoever speaks from an address: clients have no name, so their connection does."""
        return speaker_at(address)

    def speaks_as(self, address: Address, frames: Frames) -> str:
        """Name the worker whose ID a message has, the first sender of a request, or a connection.

        A resend gets the answer to what was sent first, so it must come from the same hands.
        """
        try:
            message = decode(frames[0])
        except MalformedMessage:
            return speaker_at(address)
        if isinstance(message, MemoJob) and not message.id:
            return self._clients.speaks_as(address, frames[0])
        id_: bytes = getattr(message, "id", b"")
        return id_.hex() if id_ in self._table.by_id else speaker_at(address)

    def deny(
        self,
        address: Address,
        frames: Frames,
        sends: list[Send] | None,
        fault: Fault,
        now: float,
    ) -> list[Send]:
        """Tell whoever uses another worker's ID that it is not known here; clients hear nothing."""
        if sends is not None:
            return sends
        id_ = getattr(decode(frames[0]), "id", b"")
        return [disconnect_unknown(address, id_)] if id_ else []

    # --- what peers say -----------------------------------------------------------------------

    def receive(self, address: Address, frames: Frames, now: float) -> Outcome:
        """Take one message in; no frames at all mean that the connection has ended."""
        if not frames:
            return self._workers.connection_ended(address[:CONNECTION], now)
        if len(frames) != 1 or len(address) <= CONNECTION:
            raise MalformedMessage("a memo01 message is one frame")
        message = decode(frames[0])
        self._table.hear(connection_of(address))
        if isinstance(message, MemoJob):
            return [*self._clients.receive(address, message, frames[0], now)]
        hear = self._receivers.get(type(message))
        if hear is None:
            raise MalformedMessage("DISCONNECT is for the broker to say")
        return hear(address, message, now)

    # --- what the broker says -----------------------------------------------------------------

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Put one effect into messages; what memo01 cannot say is not said."""
        write = self._writers.get(type(effect))
        return write(effect, now) if write else []

    def _send_work(self, work: SendWork, now: float) -> list[Send]:
        # A client of this link said how long its job may run, and its worker hears just that.
        return self._workers.send_work(work, self._clients.client_timeout_ms(work.job), now)

    # --- timers -------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """When a heartbeat, its answer or a result may be due."""
        return self._table.next_due()

    def advance(self, now: float) -> Outcome:
        """Send the heartbeats that are due; drop the workers whose answers are overdue."""
        return self._workers.advance(now)
