"""The clients of a memo01 link: their requests become jobs, results become answers.

This module decides which requests are refused or are resends, and where answers go. Clients have no
IDs and no state but their requests.
"""

from collections.abc import Container
from functools import lru_cache
from hashlib import blake2b
from itertools import count

from dragoman.core.effects import LinkPast, SendReply
from dragoman.core.events import JobSubmitted, Noted, ReplyKind
from dragoman.dialects.base import Address, BodyCodecs, MalformedMessage, Send, convert_answer
from dragoman.dialects.memo01.body_codec import NAME, TAG, untagged
from dragoman.dialects.memo01.request_recovery import LoadBody, job_id_for, key_of_job
from dragoman.dialects.memo01.requests import MemoRequest, MemoRequests, connection_of, key_of
from dragoman.dialects.memo01.settings import LONGEST_TIMEOUT_MS, MemoSettings
from dragoman.dialects.memo01.wire import MemoJob, MemoResult, encode
from dragoman.model.body import Body
from dragoman.model.content import Unmappable
from dragoman.model.names import EVERY_SERVICE, JobId, PeerId, ServiceName, name_of, peer_id
from dragoman.model.record import Kind
from dragoman.model.terms import Terms


def speaker_at(address: Address) -> str:
    """Return the peer name of an address, from its connection."""
    return "c" + connection_of(address).hex()


def refusal(link: str, address: Address, detail: str, service: ServiceName | None = None) -> Noted:
    """Return the note of a refused message; its sender gets no answer."""
    peer = peer_id(link, speaker_at(address))
    return Noted(Kind.REFUSED, peer, detail, service=service, dialect=NAME)


class MemoClientHandler:
    """All clients of one link. `live` are the connections that have not ended."""

    def __init__(
        self,
        link: str,
        process: str,
        codecs: BodyCodecs,
        settings: MemoSettings,
        live: Container[bytes],
    ) -> None:
        self._link = link
        self._codecs = codecs
        self._settings = settings
        self._live = live
        self._requests = MemoRequests(settings.resend_window, settings.remembered)
        #: Identifies this process in job ids, so that its jobs need only be counted.
        self._process = blake2b(process.encode(), digest_size=4).hexdigest()
        self._jobs = count(1)
        self.resends = 0

    def restore(self, past: LinkPast, load_body: LoadBody, since: float) -> None:
        """Restore the requests of an earlier process: open, or answered after `since`."""
        for found in past.requests:
            key, answered_at = key_of_job(found.job), found.answered_at
            if key is None or (answered_at is not None and answered_at < since):
                continue
            run_timeout = found.terms.run_timeout
            timeout_ms = round(run_timeout * 1000) if run_timeout else LONGEST_TIMEOUT_MS
            request = MemoRequest(key, found.job, found.client, timeout_ms, is_tagged=False)
            self._requests.open(request)
            if answered_at is not None:
                request.is_tagged = _is_tagged(load_body(found.seq))
                self._requests.answered(request, answered_at)

    def resume_request(self, job: JobId, body: Body) -> None:
        """Learn the body of a restored request that is about to be answered."""
        request = self._requests.of_job(job)
        if request is not None:
            request.is_tagged = _is_tagged(body)

    def receive(
        self, address: Address, job: MemoJob, raw: bytes, now: float
    ) -> list[JobSubmitted | Noted]:
        """Read a JOB: new, resent, or refused."""
        if job.id:
            raise MalformedMessage("the ID of a client's JOB must be empty")
        key = key_of(address, raw)
        known = self._requests.find_resent(key, now)
        client = peer_id(self._link, speaker_at(address))
        if known is not None:
            return self._resent(known, address, job, client)
        reason = self._refusal_reason(job)
        if reason:
            return [refusal(self._link, address, reason, ServiceName(job.service))]
        timeout_ms = min(job.timeout_ms, self._settings.longest_timeout_ms)
        is_tagged = job.payload.startswith(TAG)
        job_id = job_id_for(key, f"{self._process}{next(self._jobs):x}")
        request = MemoRequest(key, job_id, client, timeout_ms, is_tagged)
        self._requests.open(request, address)
        return [self._submitted(request, job, client)]

    def speaks_as(self, address: Address, raw: bytes) -> str:
        """Return the peer name of a JOB: of a resend, that of its first sender."""
        known = self._requests.of_key(key_of(address, raw))
        return name_of(known.client) if known is not None else speaker_at(address)

    def _refusal_reason(self, job: MemoJob) -> str:
        """Return why a JOB is refused; empty if it is not."""
        if job.timeout_ms <= 0:
            return f"a timeout of {job.timeout_ms} ms leaves no time to run"
        if len(job.payload) > self._settings.payload_limit:
            limit = self._settings.payload_limit
            return f"a payload of {len(job.payload)} bytes; the limit is {limit}"
        if job.service == EVERY_SERVICE:
            return "the service name 'all' is reserved"
        return ""

    def _resent(
        self, request: MemoRequest, address: Address, job: MemoJob, client: PeerId
    ) -> list[JobSubmitted | Noted]:
        """Add the address of a resend; if the job is answered already, ask the core again."""
        self.resends += 1
        if address not in request.addresses:
            request.addresses = [*self._reachable(request), address]
        if request.forget_at is None:
            return []
        return [self._submitted(request, job, client)]

    def _submitted(self, request: MemoRequest, job: MemoJob, client: PeerId) -> JobSubmitted:
        settings = self._settings
        terms = _terms(
            request.timeout_ms,
            settings.queue_timeout,
            settings.max_attempts,
            settings.strict,
            job.service in settings.memoized,
        )
        body = Body(NAME, (job.payload,))
        return JobSubmitted(request.job, client, ServiceName(job.service), body, terms=terms)

    def client_timeout_ms(self, job: JobId) -> int | None:
        """Return the timeout of a job of this link's client, in milliseconds."""
        request = self._requests.of_job(job)
        return request.timeout_ms if request else None

    def render(self, reply: SendReply, now: float) -> list[Send]:
        """Answer a client's request. If the job failed there is no answer, as memo01 specifies."""
        request = self._requests.of_job(reply.job)
        if reply.kind is not ReplyKind.FINAL or request is None:
            return []
        if reply.fault is not None:
            self._requests.forget(request)
            return []
        try:
            message = encode(MemoResult(b"", self._answer_to(request, reply)))
        except Unmappable:
            self._requests.forget(request)
            raise
        self._requests.answered(request, now)
        return [Send(address, [message]) for address in self._reachable(request)]

    def _reachable(self, request: MemoRequest) -> list[Address]:
        return [a for a in request.addresses if connection_of(a) in self._live]

    def _answer_to(self, request: MemoRequest, reply: SendReply) -> bytes:
        """Write a result as its client reads it: with the tag only if the request had it."""
        if reply.body.dialect == NAME or not reply.body.parts:
            # A body without parts is an empty result.
            return b"".join(reply.body.parts)
        body = convert_answer(self._codecs, reply.body, NAME, reply.worker)
        payload = b"".join(body.parts)
        return payload if request.is_tagged else untagged(payload)


def _is_tagged(body: Body | None) -> bool:
    return body is not None and b"".join(body.parts).startswith(TAG)


@lru_cache(maxsize=1024)
def _terms(
    timeout_ms: int, queue_timeout: float, max_attempts: int, strict: bool, memoize: bool
) -> Terms:
    """Return the terms of a JOB; cached, because a client's jobs mostly have the same."""
    return Terms(
        patience=queue_timeout,
        queue_timeout=queue_timeout,
        run_timeout=timeout_ms / 1000,
        max_attempts=max_attempts,
        strict=strict,
        memoize=memoize,
    )
