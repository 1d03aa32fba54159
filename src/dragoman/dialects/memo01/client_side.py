"""A client's end of memo01, in model words.

memo01 answers name no job: the request they answer is all there is. So each message goes with a
ticket as its first frame (the job's id, which never leaves the process) and its transport puts
the ticket before the answer. A third frame says how many milliseconds the answer may take.

* out: `[ticket, JOB, milliseconds]`
* in: `[ticket, RESULT]`, or `[ticket]` alone when the request was dropped (no answer in time)
"""

from typing import Any, Final, NoReturn

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
#: A job of which nobody said how long it may run.
DEFAULT_TIMEOUT: Final = 60.0
#: What an answer may take beyond the time that was allowed for it.
_ON_THE_WAY: Final = 2.0


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
        """Say nothing: clients of memo01 have no name."""
        return []

    def submit(self, order: Submission) -> list[Frames]:
        """Ask for work; the same order again goes to the same ticket."""
        if order.target != ANY:
            _unsupported("targets", "use target='any'")
        if order.key:
            _unsupported("idempotency keys", "repeat the same request instead")
        timeout_ms, wait_ms = self._times(order.call.timeout)
        payload = b"".join(self._codec.write_call(order.call).parts)
        job = encode(MemoJob(b"", order.service, timeout_ms, payload))
        self._open.add(order.job)
        return [[order.job.encode(), job, b"%d" % wait_ms]]

    def _times(self, timeout: float | None) -> tuple[int, int]:
        """Return how long the job may run, and how long to wait for its answer, in milliseconds.

        A caller who says a time will not wait longer; one who says none waits for the queue too.
        """
        run = self._timeout if timeout is None else timeout
        wait = run + self._queue_timeout if timeout is None else run
        run_ms = min(max(1, round(run * 1000)), LONGEST_TIMEOUT_MS)
        return run_ms, max(run_ms, round((wait + _ON_THE_WAY) * 1000))

    def receive(self, frames: Frames) -> list[ClientNotice]:
        """Take an answer in, or the news that there is none."""
        job = JobId(bytes(frames[0]).decode(errors="replace")) if frames else JobId("")
        if job not in self._open:
            return []
        if len(frames) == 1:
            self._open.discard(job)
            words = "the broker did not answer: no worker in time, or the job failed or ran out"
            return [Finished(job, (), Fault(FaultCode.JOB_TIMEOUT, words), JobState.EXPIRED)]
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

    # --- what memo01 has no words for ---------------------------------------------------------

    def ask(self, job: JobId) -> list[Frames]:
        """Refuse: results cannot be asked for."""
        _unsupported("asking for a result", "keep the request open, or submit it again")

    def cancel(self, job: JobId) -> list[Frames]:
        """Refuse: jobs cannot be cancelled."""
        _unsupported("cancelling", "let the job's timeout end it")

    def give_input(self, job: JobId, request: str, answer: Any, worker: str) -> list[Frames]:
        """Refuse: running jobs take no input."""
        _unsupported("input to a running job", "put everything into the request")

    def subscribe(self, topics: tuple[str, ...], after: int) -> list[Frames]:
        """Refuse: there are no events."""
        _unsupported("events", "use an nfp:// or http:// client")


def _unsupported(what: str, instead: str) -> NoReturn:
    raise Unsupported(f"memo has no {what}; {instead}")
