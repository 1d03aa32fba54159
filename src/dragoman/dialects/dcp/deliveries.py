"""Messages to DCP workers: requests, and for workers with notes also input and cancels."""

from collections.abc import Callable
from typing import Any, Final

from dragoman.core.effects import Dismiss, Effect, SendBeat, SendCancel, SendInput, SendWork
from dragoman.dialects.base import BodyCodecs, Send, convert_answer, convert_call
from dragoman.dialects.dcp.body_codec import NAME
from dragoman.dialects.dcp.notes import request_note
from dragoman.dialects.dcp.settings import DcpSettings
from dragoman.dialects.dcp.wire import (
    DcpRequest,
    Pong,
    Reconnect,
    Tail,
    data_of,
    encode,
)
from dragoman.dialects.dcp.workers import (
    DcpAssignment,
    DcpWorker,
    DcpWorkers,
    Widths,
    mark_of,
)
from dragoman.dialects.notes import Note, read_text, write_note
from dragoman.model.body import Body
from dragoman.model.content import Unmappable
from dragoman.model.names import PeerId, link_of, name_of, raw_of
from dragoman.model.target import resources_of


class Deliveries:
    """Encodes messages to workers, and tracks what each of them holds."""

    def __init__(
        self,
        link: str,
        codecs: BodyCodecs,
        settings: DcpSettings,
        workers: DcpWorkers,
        widths: Widths,
    ) -> None:
        self._link = link
        self._codecs = codecs
        self._settings = settings
        self._workers = workers
        self._widths = widths

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Encode one effect for a worker."""
        write = _RENDERERS.get(type(effect))
        return write(self, effect, now) if write is not None else []

    def _work(self, effect: SendWork, now: float) -> list[Send]:
        worker = self._workers.join(raw_of(name_of(effect.worker)), effect.worker)
        worker.is_free = False
        held = self._hold(effect, worker, now)
        return [self._request(worker, held.mark[0], held.body.parts)]

    def resume_work(self, effect: SendWork, now: float) -> None:
        """Remember a request that an earlier process sent, so that its reply is recognised."""
        worker = self._workers.restore(raw_of(name_of(effect.worker)), effect.worker)
        self._hold(effect, worker, now)

    def _hold(self, effect: SendWork, worker: DcpWorker, now: float) -> DcpAssignment:
        body = convert_call(self._codecs, effect.body, NAME)
        tail = body.parts
        if body is not effect.body:
            # The codec's own note has the headers of the call.
            note = request_note(tail)
            rest = tail if note is None else tail[1:]
            tail = (write_note((note or {}) | _foreign(effect, now)), *rest)
        elif worker.reads_notes and (resources := resources_of(effect.target)):
            # Only a note can name resources as the target, so the request has one.
            note = (request_note(tail) or {}) | {"resources": resources}
            tail = (write_note(note), *tail[1:])
        client = self._client_frame(effect.client)
        mark = mark_of(client, tail)
        held = DcpAssignment(effect.job, effect.attempt, effect.service, Body(NAME, tail), mark)
        worker.hold(held, now)
        return held

    def _request(self, worker: DcpWorker, client: bytes, tail: Tail) -> Send:
        address = raw_of(name_of(worker.peer))
        request = DcpRequest(worker.service, client, tail, self._widths.of(address))
        return Send(address, encode(request))

    def _client_frame(self, client: PeerId) -> bytes:
        """Return the client frame: the client's address, or its id if it is on another link."""
        return raw_of(name_of(client)) if link_of(client) == self._link else client.encode()

    def _input(self, effect: SendInput, now: float) -> list[Send]:
        worker = self._with_notes(effect.worker)
        if worker is None:
            raise Unmappable("DCP has no input to a running job, and this worker uses no notes")
        note = request_note(effect.body.parts) if effect.body.dialect == NAME else None
        request = read_text((note or {}).get("request"))
        if not request or request == effect.job:
            # A client of another dialect does not know the worker's name of the question.
            request = worker.questions.get(effect.job, "")
        data = data_of(convert_answer(self._codecs, effect.body, NAME).parts)
        return self._to_holder(effect, worker, {"kind": "input", "request": request}, data)

    def _cancel(self, effect: SendCancel, now: float) -> list[Send]:
        worker = self._with_notes(effect.worker)
        return self._to_holder(effect, worker, {"kind": "cancel"}, ()) if worker else []

    def _with_notes(self, peer: PeerId) -> DcpWorker | None:
        """Return the worker if it uses notes; others understand only requests."""
        worker = self._workers.present.get(raw_of(name_of(peer)))
        return worker if worker is not None and worker.reads_notes else None

    def _to_holder(
        self, effect: SendInput | SendCancel, worker: DcpWorker, note: Note, data: Tail
    ) -> list[Send]:
        """Send a worker a note about a request that it holds."""
        held = worker.holding(effect.job)
        if held is None:
            return []
        return [self._about(worker, held, note, data)]

    def _about(self, worker: DcpWorker, held: DcpAssignment, note: Note, data: Tail = ()) -> Send:
        tail = (*held.metadata, write_note(note), b"", *data)
        return self._request(worker, held.mark[0], tail)

    def _beat(self, effect: SendBeat, now: float) -> list[Send]:
        """Check whether a silent busy worker still has its requests.

        Our own workers are polled. For others the text has no heartbeat of the broker, but every
        worker accepts a pong, and the ROUTER reports an address that is gone.
        """
        address = raw_of(name_of(effect.worker))
        worker = self._workers.present.get(address)
        if worker is None or not worker.is_busy:
            return []
        if worker.answers_polls:
            overdue = worker.overdue(now - self._settings.poll_every, now)
            return [self._about(worker, held, {"kind": "poll"}) for held in overdue]
        if now - worker.seen_at < self._settings.beat_every * self._settings.missed_allowed:
            return []
        return [Send(address, encode(Pong(self._widths.of(address))))]

    def _dismiss(self, effect: Dismiss, now: float) -> list[Send]:
        """Ask a worker to register again, unless it unregistered itself."""
        address = raw_of(name_of(effect.peer))
        worker = self._workers.find(address)
        self._workers.leave(address)
        if worker is None or worker.has_left:
            return []
        reason = (write_note({"reason": effect.reason}),) if worker.reads_notes else ()
        return [Send(address, encode(Reconnect(self._widths.of(address), reason)))]


def _foreign(effect: SendWork, now: float) -> Note:
    """Make the note for a request of another dialect."""
    note: Note = {"job": effect.job, "attempt": effect.attempt}
    if effect.run_until is not None:
        note["timeout"] = max(0.0, round(effect.run_until - now, 3))
    if resources := resources_of(effect.target):
        note["resources"] = resources
    return note


_RENDERERS: Final[dict[type, Callable[[Deliveries, Any, float], list[Send]]]] = {
    SendWork: Deliveries._work,
    SendInput: Deliveries._input,
    SendCancel: Deliveries._cancel,
    SendBeat: Deliveries._beat,
    Dismiss: Deliveries._dismiss,
}
