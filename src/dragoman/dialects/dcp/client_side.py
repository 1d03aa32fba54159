"""A client's end of DCP, for the SDK.

Each request has a note with the job id as its first metadata part. The broker uses this id, and the
reply returns it. A broker without notes forwards the note unread; then there are results, but no
progress.
"""

from typing import Final

from dragoman.dialects.base import Frames, MalformedMessage
from dragoman.dialects.dcp.notes import request_note, take_report
from dragoman.dialects.dcp.wire import NARROW, DcpReply, DcpRequest, Tail, data_of, decode, encode
from dragoman.dialects.note_notices import (
    READERS,
    read_gathered,
    read_result,
    service_bytes,
    state_of,
    submission_note,
)
from dragoman.dialects.notes import Note, read_fault, write_note
from dragoman.dialects.parts import answer_parts, call_parts
from dragoman.dialects.peer_sides import ClientNotice, Finished, Submission, Unsupported
from dragoman.model.content import Answer
from dragoman.model.names import JobId


class DcpClientSide:
    """The client side of DCP."""

    def __init__(self, width: int = NARROW) -> None:
        self._width = width

    def hello(self) -> list[Frames]:
        """Return nothing: DCP has no greeting."""
        return []

    def submit(self, submission: Submission) -> list[Frames]:
        """Submit a job. The broker recognises a repeated job by its id."""
        if submission.key:
            raise Unsupported("DCP has no idempotency keys: use the same job id instead")
        headers = dict(submission.call.headers)
        note = submission_note(submission) | ({"headers": headers} if headers else {})
        tail = (write_note(note), b"", *call_parts(submission.call))
        return [self._request(service_bytes(submission.service), tail)]

    def ask(self, job: JobId) -> list[Frames]:
        """Request the result of a job."""
        return [self._question({"ask": "result", "job": job})]

    def cancel(self, job: JobId) -> list[Frames]:
        """Request that a job stops."""
        return [self._question({"ask": "cancel", "job": job})]

    def give_input(self, job: JobId, request: str, answer: object, worker: str) -> list[Frames]:
        """Answer a worker's question."""
        note = {"ask": "input", "job": job, "worker": worker, "request": request}
        return [self._question(note, answer_parts(Answer(answer)))]

    def subscribe(self, topics: tuple[str, ...], after: int) -> list[Frames]:
        """Raise `Unsupported`: DCP has no events."""
        raise Unsupported("DCP has no events: follow them over NFP or HTTP")

    def _question(self, note: Note, data: Tail = ()) -> Frames:
        return self._request(b"", (write_note(note), b"", *data))

    def _request(self, service: bytes, tail: Tail) -> Frames:
        return encode(DcpRequest(service, b"", tail, self._width))

    def receive(self, frames: Frames) -> list[ClientNotice]:
        """Decode one message. Anything but a reply to our own requests is ignored."""
        try:
            message = decode(frames)
        except MalformedMessage:
            return []
        # DagBox's broker sends a queued request back to its client.
        if type(message) is not DcpReply:
            return []
        self._width = message.width
        tail, report = take_report(message.tail)
        note = request_note(tail)
        job = note.get("job") if note is not None else None
        if not isinstance(job, str):
            return []
        kind = report["kind"] if report is not None else "final"
        read = _READERS.get(kind) if isinstance(kind, str) else None
        return read(JobId(job), report or {}, data_of(tail)) if read is not None else []


def _result(job: JobId, note: Note, data: Tail) -> list[ClientNotice]:
    """Decode the answer to a request for a result."""
    if note.get("gathered"):
        return read_gathered(job, note, data)
    if "code" in note:
        return [Finished(job, (), read_fault(note), state_of(note))]
    return read_result(job, note, data)


_READERS: Final = READERS | {"final": read_result, "result": _result}
