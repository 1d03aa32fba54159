"""Messages to MDP workers: requests, heartbeats, and for our own also input, cancels and polls."""

from collections.abc import Callable
from typing import Any, Final

from dragoman.core.effects import (
    Dismiss,
    Effect,
    SendBeat,
    SendCancel,
    SendInput,
    SendPoll,
    SendWork,
)
from dragoman.dialects.base import BodyCodecs, Send, convert_answer, convert_call
from dragoman.dialects.mdp.settings import MdpSettings
from dragoman.dialects.mdp.wire import (
    NAME,
    MdpDisconnect,
    MdpHeartbeat,
    Parts,
    WorkerRequest,
    encode,
)
from dragoman.dialects.mdp.workers import MdpAssignment, MdpWorker, MdpWorkers
from dragoman.dialects.notes import Note, write_note
from dragoman.model.content import Unmappable
from dragoman.model.names import JobId, PeerId, name_of, raw_of
from dragoman.model.target import resources_of


class MdpDeliveries:
    """Encodes messages to workers, and tracks what each of them holds."""

    def __init__(self, codecs: BodyCodecs, settings: MdpSettings, workers: MdpWorkers) -> None:
        self._codecs = codecs
        self._settings = settings
        self._workers = workers

    def render(self, effect: Effect, now: float) -> list[Send]:
        """Encode one effect for a worker."""
        write = _RENDERERS.get(type(effect))
        return write(self, effect, now) if write is not None else []

    def question(self, job: JobId) -> str:
        """Return the name of the open question of a job; empty if there is none."""
        found = (w.questions.get(job, "") for w in self._workers.present.values() if w.questions)
        return next((name for name in found if name), "")

    def _find(self, peer: PeerId) -> MdpWorker | None:
        return self._workers.present.get(raw_of(name_of(peer)))

    def _send(self, worker: MdpWorker, found: MdpAssignment, body: Parts) -> Send:
        request = WorkerRequest(found.envelope, body or (b"",), worker.version)
        return Send(raw_of(name_of(worker.peer)), encode(request))

    def _work(self, effect: SendWork, now: float) -> list[Send]:
        body = convert_call(self._codecs, effect.body, NAME).parts
        worker = self._find(effect.worker)
        if worker is None:
            # It left in this batch, and the core is about to learn it.
            return []
        found = MdpAssignment(effect.job, effect.attempt, effect.service)
        worker.hold(found, now)
        head = (write_note(_work_note(effect, now)),) if worker.has_notes else ()
        return [self._send(worker, found, (*head, *body))]

    def resume_work(self, effect: SendWork, now: float) -> None:
        """Remember a request that an earlier process sent, so that its reply is recognised."""
        found = MdpAssignment(effect.job, effect.attempt, effect.service)
        self._workers.restore(raw_of(name_of(effect.worker)), effect.worker, found, now)

    def _about(self, peer: PeerId, job: JobId, note: Note, data: Parts = ()) -> list[Send]:
        """Send our own worker a note about a request that it holds."""
        worker = self._find(peer)
        found = worker.find(job) if worker is not None and worker.has_notes else None
        if worker is None or found is None:
            return []
        return [self._send(worker, found, (write_note(note), *data))]

    def _input(self, effect: SendInput, now: float) -> list[Send]:
        worker = self._find(effect.worker)
        if worker is None or not worker.has_notes:
            raise Unmappable("MDP has no input to a running job, and this worker uses no notes")
        request = worker.questions.get(effect.job, "")
        data = convert_answer(self._codecs, effect.body, NAME).parts
        return self._about(effect.worker, effect.job, {"kind": "input", "request": request}, data)

    def _cancel(self, effect: SendCancel, now: float) -> list[Send]:
        return self._about(effect.worker, effect.job, {"kind": "cancel"})

    def _poll(self, effect: SendPoll, now: float) -> list[Send]:
        return self._about(effect.worker, effect.job, {"kind": "poll"})

    def _beat(self, effect: SendBeat, now: float) -> list[Send]:
        """Send a heartbeat, and poll our own worker for requests that were silent for long."""
        worker = self._find(effect.worker)
        if worker is None:
            return []
        beat = Send(raw_of(name_of(effect.worker)), encode(MdpHeartbeat(version=worker.version)))
        if not worker.has_notes:
            return [beat]
        overdue = worker.overdue(now - self._settings.poll_every, now)
        polls = (self._send(worker, each, (write_note({"kind": "poll"}),)) for each in overdue)
        return [beat, *polls]

    def _dismiss(self, effect: Dismiss, now: float) -> list[Send]:
        """Disconnect a worker, unless it unregistered itself."""
        address = raw_of(name_of(effect.peer))
        worker = self._workers.leave(address)
        if worker is None:
            return []
        reason = (write_note({"reason": effect.reason}),) if worker.has_notes else ()
        return [Send(address, encode(MdpDisconnect(worker.version, reason)))]


def _work_note(effect: SendWork, now: float) -> Note:
    note: Note = {"kind": "work", "job": effect.job, "service": effect.service}
    note["client"] = effect.client
    if effect.run_until is not None:
        note["timeout"] = max(0.0, round(effect.run_until - now, 3))
    if resources := resources_of(effect.target):
        note["resources"] = resources
    return note


_RENDERERS: Final[dict[type, Callable[[MdpDeliveries, Any, float], list[Send]]]] = {
    SendWork: MdpDeliveries._work,
    SendInput: MdpDeliveries._input,
    SendCancel: MdpDeliveries._cancel,
    SendPoll: MdpDeliveries._poll,
    SendBeat: MdpDeliveries._beat,
    Dismiss: MdpDeliveries._dismiss,
}
