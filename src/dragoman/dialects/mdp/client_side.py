"""A client's end of MDP, for the SDK.

It speaks version 0.2 to a Dragoman broker. MDP has no request ids, so each request begins with a
note that names the job, and each reply returns it. Another broker would forward the note to the
worker: use a plain MDP client there.
"""

from dragoman.dialects.base import Frames, MalformedMessage
from dragoman.dialects.mdp.wire import ClientReply, ClientRequest, Parts, decode, encode
from dragoman.dialects.note_notices import READERS, service_bytes, submission_note
from dragoman.dialects.notes import Note, read_note, write_note
from dragoman.dialects.parts import answer_parts, call_parts
from dragoman.dialects.peer_sides import ClientNotice, Submission, Unsupported
from dragoman.model.content import Answer
from dragoman.model.names import JobId


class MdpClientSide:
    """The client side of MDP."""

    def hello(self) -> list[Frames]:
        """Return nothing: MDP has no greeting."""
        return []

    def submit(self, submission: Submission) -> list[Frames]:
        """Submit a job. The broker recognises a repeated job by its id or key."""
        body = (write_note(submission_note(submission)), *call_parts(submission.call))
        return [encode(ClientRequest(service_bytes(submission.service), body))]

    def ask(self, job: JobId) -> list[Frames]:
        """Request the result of a job."""
        return [_question({"ask": "result", "job": job})]

    def cancel(self, job: JobId) -> list[Frames]:
        """Request that a job stops."""
        return [_question({"ask": "cancel", "job": job})]

    def give_input(self, job: JobId, request: str, answer: object, worker: str) -> list[Frames]:
        """Answer a worker's question."""
        note = {"ask": "input", "job": job, "worker": worker, "request": request}
        return [_question(note, answer_parts(Answer(answer)))]

    def subscribe(self, topics: tuple[str, ...], after: int) -> list[Frames]:
        """Raise `Unsupported`: MDP has no events."""
        raise Unsupported("MDP has no events: follow them over NFP or HTTP")

    def receive(self, frames: Frames) -> list[ClientNotice]:
        """Decode one message. Anything but a reply to our own requests is ignored."""
        try:
            message = decode(frames, to_broker=False)
        except MalformedMessage:
            return []
        if not isinstance(message, ClientReply):
            return []
        note = read_note(message.body[0])
        job, kind = (note.get("job"), note.get("kind")) if note is not None else (None, None)
        read = READERS.get(kind) if isinstance(kind, str) else None
        if note is None or read is None or not isinstance(job, str):
            return []
        return read(JobId(job), note, message.body[1:])


def _question(note: Note, data: Parts = ()) -> Frames:
    return encode(ClientRequest(b"", (write_note(note), *data)))
