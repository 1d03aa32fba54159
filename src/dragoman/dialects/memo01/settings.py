"""Settings of a memo01 link: times and bounds, with upstream's numbers as defaults."""

from typing import Final

from dragoman.model.setting import setting
from dragoman.model.value import value

#: The longest timeout that fits upstream's 32 bits, about 24.8 days; also stands for "no limit".
LONGEST_TIMEOUT_MS: Final = 2**31 - 1


@value
class MemoSettings:
    """Times are in seconds."""

    beat_every: float = setting(
        default=10.0,
        gt=0,
        help="Seconds that a worker is idle before it gets a HEARTBEAT; upstream: 10.",
    )
    beat_answer: float = setting(
        default=10.0, gt=0, help="Seconds that its answer may take; upstream: 10."
    )
    queue_timeout: float = setting(
        default=10.0, gt=0, help="Seconds that a job may wait for a worker; upstream: 10."
    )
    #: How long a worker that owes a message may be without a connection.
    reconnect_grace: float = 5.0
    max_attempts: int = setting(
        default=3, ge=1, help="How often a job is dispatched before it is dead."
    )
    #: Whether a job is on disk before it is dispatched. The protocol promises no persistence.
    strict: bool = False
    payload_limit: int = setting(default=16 * 1024 * 1024, ge=1, help="Largest payload, in bytes.")
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
