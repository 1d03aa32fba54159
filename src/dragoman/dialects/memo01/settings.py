"""Settings of a memo01 link: times and bounds, with upstream's numbers as defaults."""

from typing import Final

from dragoman.model.value import value

#: The longest timeout that fits upstream's 32 bits, about 24.8 days; also stands for "no limit".
LONGEST_TIMEOUT_MS: Final = 2**31 - 1


@value
class MemoSettings:
    """Times are in seconds."""

    #: How long a worker is idle before it gets a HEARTBEAT; upstream: 10 s.
    beat_every: float = 10.0
    #: How long its answer may take; upstream: 10 s.
    beat_answer: float = 10.0
    #: How long a job may wait for a worker; upstream: 10 s.
    queue_timeout: float = 10.0
    #: How long a worker that owes a message may be without a connection.
    reconnect_grace: float = 5.0
    #: How often a job is dispatched before it is dead.
    max_attempts: int = 3
    #: Whether a job is on disk before it is dispatched. The protocol promises no persistence.
    strict: bool = False
    #: Largest payload, in bytes.
    payload_limit: int = 16 * 1024 * 1024
    #: Longest timeout of a JOB; longer ones are cut to it.
    longest_timeout_ms: int = LONGEST_TIMEOUT_MS
    #: How long an answered request is remembered, so that a resend is not a new job.
    resend_window: float = 60.0
    #: Most answered requests remembered; the oldest are dropped first.
    remembered: int = 10_000
    #: Most workers of one link.
    max_workers: int = 100_000
    #: Services whose results are memoised: the same payload gets the same result.
    memoized: frozenset[str] = frozenset()
