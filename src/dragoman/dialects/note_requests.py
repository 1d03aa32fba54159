"""What a broker reads in the note of a request: the same in every dialect of opaque parts."""

from dataclasses import replace
from typing import Final

from dragoman.core.effects import RequestKind
from dragoman.core.events import InputReceived, JobCancelled, ResultRequested
from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.notes import Note, note_options, read_number, read_target, read_text
from dragoman.model.body import Body
from dragoman.model.names import EVERY_SERVICE, JobId, PeerId, ServiceName, WorkerName, text_of
from dragoman.model.target import Target
from dragoman.model.terms import Terms

_KINDS: Final = {kind.value: kind for kind in RequestKind}
_HIGHEST_PRIORITY: Final = 2**31


def service_name(raw: bytes) -> ServiceName:
    """Return the service name of these bytes; a reserved name is written in hex."""
    name = text_of(raw)
    return ServiceName(name if name != EVERY_SERVICE else "0x" + raw.hex())


def note_target(note: Note) -> Target:
    """Return the target that a request names. Raises `MalformedMessage`."""
    try:
        return read_target(note.get("target"))
    except ValueError as error:
        raise MalformedMessage(str(error)) from None


def note_terms(terms: Terms, note: Note) -> Terms:
    """Return terms with the timeout, priority and options of a request."""
    timeout, priority = read_number(note.get("timeout")), note.get("priority")
    if timeout is not None:
        terms = replace(terms, timeout=float(timeout))
    if type(priority) is int and priority and abs(priority) < _HIGHEST_PRIORITY:
        terms = replace(terms, priority=priority)
    return note_options(terms, note)


def request_kind(note: Note) -> RequestKind:
    """Return what a client asks about a job. Raises `MalformedMessage`."""
    kind = _KINDS.get(read_text(note.get("ask")))
    if kind is None:
        raise MalformedMessage("the note of a request has an unknown `ask`")
    return kind


def question_event(
    kind: RequestKind, job: JobId, client: PeerId, note: Note, body: Body
) -> InputReceived | JobCancelled | ResultRequested:
    """Return the event of a client's question about a job."""
    if kind is RequestKind.INPUT:
        worker = read_text(note.get("worker"))
        return InputReceived(job, client, body, WorkerName(worker) if worker else None)
    return JobCancelled(job, client) if kind is RequestKind.CANCEL else ResultRequested(job, client)
