"""A client's end of memo01, for the SDK.

A memo01 answer names no job; only its request identifies it. So each message has a ticket as its
first frame: the job's id, which the transport puts before the answer and does not send. A third
frame holds how many milliseconds the answer may take.

* out: `[ticket, JOB, milliseconds]`
* in: `[ticket, RESULT]`, or `[ticket]` alone if no answer came in time
"""

from typing import Final, NoReturn

from dragoman.dialects.base import Frames, MalformedMessage
from dragoman.dialects.memo01.body_codec import NAME, MemoBodyCodec
from dragoman.dialects.memo01.settings import LONGEST_TIMEOUT_MS, MemoSettings
from dragoman.dialects.memo01.wire import MemoJob, MemoResult, decode, encode
from dragoman.dialects.peer_sides import ClientNotice, Finished, Submission, Unsupported
from dragoman.model.body import Body
from dragoman.model.content import Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId
from dragoman.model.target import ANY

_DEFAULTS: Final = MemoSettings()
#: How long a job may run if its submission has no timeout.
DEFAULT_TIMEOUT: Final = 60.0
#: How much longer than the job's own time the client waits for the answer.
_NETWORK_MARGIN: Final = 2.0


class MemoClientSide:
    """One client; any number of requests may be open."""

    def __init__(
        self,
        timeout: float = DEFAULT_TIMEOUT,
        queue_timeout: float = _DEFAULTS.queue_timeout,
    ) -> None:
        self._codec = MemoBodyCodec()
        self._timeout = timeout
        self._queue_timeout = queue_timeout
        #: Jobs that are not answered yet.
        self._open: set[JobId] = set()

    def hello(self) -> list[Frames]:
        """Return no message: memo01 clients have no name and no greeting."""
        return []

    def submit(self, submission: Submission) -> list[Frames]:
        """Write a JOB. The same submission again has the same ticket."""
        if submission.target != ANY:
            _unsupported("targets", "use target='any'")
        if submission.options:
            names = ", ".join(submission.options)
            raise Unsupported(f"memo01 requests have no options ({names}): set the service's")
        if submission.key:
            _unsupported("idempotency keys", "repeat the same request instead")
        timeout_ms, wait_ms = self._times(submission.call.timeout)
        payload = b"".join(self._codec.write_call(submission.call).parts)
        job = encode(MemoJob(b"", submission.service, timeout_ms, payload))
        self._open.add(submission.job)
        return [[submission.job.encode(), job, b"%d" % wait_ms]]

    def _times(self, timeout: float | None) -> tuple[int, int]:
        """Return how long the job may run, and how long to wait for its answer, in milliseconds.

        With a timeout the caller waits no longer than that; without one, the queue time is added.
        """
        run = self._timeout if timeout is None else timeout
        wait = run + self._queue_timeout if timeout is None else run
        run_ms = min(max(1, round(run * 1000)), LONGEST_TIMEOUT_MS)
        return run_ms, max(run_ms, round((wait + _NETWORK_MARGIN) * 1000))

    def receive(self, frames: Frames) -> list[ClientNotice]:
        """Read an answer, or the notice that none came."""
        job = JobId(bytes(frames[0]).decode(errors="replace")) if frames else JobId("")
        if job not in self._open:
            return []
        if len(frames) == 1:
            self._open.discard(job)
            detail = "no answer from the broker: no worker in time, or the job failed or timed out"
            return [Finished(job, (), Fault(FaultCode.JOB_TIMEOUT, detail), JobState.EXPIRED)]
        finished = self._finished(job, frames[1])
        if finished is None:
            return []
        self._open.discard(job)
        return [finished]

    def _finished(self, job: JobId, message: bytes) -> Finished | None:
        try:
            result = decode(message)
        except MalformedMessage:
            return None
        if type(result) is not MemoResult:
            return None
        try:
            answer = self._codec.read_answer(Body(NAME, (result.payload,)))
        except Unmappable as error:
            fault = Fault(FaultCode.UNMAPPABLE, str(error))
            return Finished(job, (), fault, JobState.FAILED)
        if answer.fault is not None:
            return Finished(job, (answer,), answer.fault, JobState.FAILED)
        return Finished(job, (answer,), None, JobState.SUCCEEDED)

    # --- not in memo01 ------------------------------------------------------------------------

    def ask(self, job: JobId) -> list[Frames]:
        """Refuse: results cannot be asked for."""
        _unsupported("asking for a result", "keep the request open, or submit it again")

    def cancel(self, job: JobId) -> list[Frames]:
        """Refuse: jobs cannot be cancelled."""
        _unsupported("cancelling", "let the job's timeout end it")

    def give_input(self, job: JobId, request: str, answer: object, worker: str) -> list[Frames]:
        """Refuse: running jobs take no input."""
        _unsupported("input to a running job", "put everything into the request")

    def subscribe(self, topics: tuple[str, ...], after: int) -> list[Frames]:
        """Refuse: there are no events."""
        _unsupported("events", "use an nfp:// or http:// client")


def _unsupported(what: str, instead: str) -> NoReturn:
    raise Unsupported(f"memo has no {what}; {instead}")
