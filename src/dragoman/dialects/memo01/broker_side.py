"""The broker's end of memo01: requests become events, effects become answers to requests.

This module sends each message and effect to `client_handler` or `worker_handler`, names the peers,
and holds what both handlers share: the connections.

memo01 has no message for a refusal: the request gets no answer. Each refusal is in the ledger:
malformed messages raise `MalformedMessage`, refused ones are `Noted`, faults are the core's
records.
"""

from collections.abc import Callable
from typing import Any

from dragoman.core.effects import Dismiss, Effect, LinkPast, SendBeat, SendReply, SendWork
from dragoman.dialects.base import Address, BodyCodecs, Frames, MalformedMessage, Send
from dragoman.dialects.memo01.body_codec import NAME
from dragoman.dialects.memo01.client_handler import MemoClientHandler, speaker_at
from dragoman.dialects.memo01.request_recovery import LoadBody
from dragoman.dialects.memo01.requests import CONNECTION, connection_of
from dragoman.dialects.memo01.settings import MemoSettings
from dragoman.dialects.memo01.wire import MemoHeartbeat, MemoJob, MemoReady, MemoResult, decode
from dragoman.dialects.memo01.worker_handler import (
    EventsAndSends,
    MemoWorkerHandler,
    disconnect_unknown,
)
from dragoman.dialects.memo01.workers import MemoWorkers
from dragoman.model.body import Body
from dragoman.model.fault import Fault
from dragoman.model.names import JobId, PeerId


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
        #: The workers by ID, and every live connection.
        self._table = MemoWorkers()
        self._clients = MemoClientHandler(link, ids(), codecs, self._settings, self._table.live)
        self._workers = MemoWorkerHandler(link, ids, self._table, codecs, self._settings)
        self._receivers: dict[type, Callable[[Address, Any, float], EventsAndSends]] = {
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
        """Number of requests that were resent while open or just answered."""
        return self._workers.resends + self._clients.resends

    def restore(self, past: LinkPast, load_body: LoadBody, now: float) -> None:
        """Restore the requests and assignments of an earlier process."""
        self._clients.restore(past, load_body, now - self._settings.resend_window)
        self._workers.restore(past, load_body)

    def resume_request(self, job: JobId, client: PeerId, body: Body, now: float) -> None:
        """Learn the body of a restored request, just before it is answered."""
        self._clients.resume_request(job, body)

    def speaker(self, address: Address) -> str:
        """Return the peer name of an address: its connection, because clients have no name."""
        return speaker_at(address)

    def speaks_as(self, address: Address, frames: Frames) -> str:
        """Return a message's peer name: worker ID, first sender of a resend, or connection.

        A resend gets the answer to the first request, so the same peer must have sent it.
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
        """Answer DISCONNECT to a worker that is refused; a client gets no answer."""
        message = decode(frames[0])
        if isinstance(message, MemoReady):
            # In place of the HEARTBEAT that would confirm the registration.
            return [disconnect_unknown(send.address, _id(send)) for send in sends or ()]
        if sends is not None:
            return sends
        id_ = getattr(message, "id", b"")
        return [disconnect_unknown(address, id_)] if id_ else []

    # --- messages from peers ------------------------------------------------------------------

    def receive(self, address: Address, frames: Frames, now: float) -> EventsAndSends:
        """Read one message; no frames mean that the connection has ended."""
        if not frames:
            return self._workers.connection_ended(address[:CONNECTION], now)
        if len(frames) != 1 or len(address) <= CONNECTION:
            raise MalformedMessage("a memo01 message is one frame")
        message = decode(frames[0])
        self._table.add_connection(connection_of(address))
        if isinstance(message, MemoJob):
            return [*self._clients.receive(address, message, frames[0], now)]
        receive = self._receivers.get(type(message))
        if receive is None:
            raise MalformedMessage("only the broker sends DISCONNECT")
        return receive(address, message, now)

    # --- messages to peers --------------------------------------------------------------------

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Write the messages for one effect; none if memo01 has no message for it."""
        write = self._writers.get(type(effect))
        return write(effect, now) if write else []

    def _send_work(self, work: SendWork, now: float) -> list[Send]:
        # The worker gets the timeout of this link's client unchanged.
        return self._workers.send_work(work, self._clients.client_timeout_ms(work.job), now)

    # --- timers -------------------------------------------------------------------------------

    def next_deadline(self) -> float | None:
        """Return when a heartbeat, its answer or a result may be due."""
        return self._table.next_due()

    def advance(self, now: float) -> EventsAndSends:
        """Send the heartbeats that are due; drop the workers whose answers are overdue."""
        return self._workers.advance(now)


def _id(send: Send) -> bytes:
    """Return the worker's ID in a message of ours."""
    return bytes(getattr(decode(send.frames[0]), "id", b""))
