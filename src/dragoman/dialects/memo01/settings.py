"""What a memo01 link may be told: bounds and spans, with upstream's numbers as defaults."""

from typing import Final

from dragoman.model.value import value

#: The longest timeout that fits upstream's 32 bits, about 24.8 days; also "no limit said".
LONGEST_TIMEOUT_MS: Final = 2**31 - 1


@value
class MemoSettings:
    """Spans are in seconds."""

    #: An idle worker gets a HEARTBEAT after this long; upstream: 10 s.
    beat_every: float = 10.0
    #: Its answer is due within this; upstream: 10 s.
    beat_answer: float = 10.0
    #: How long a job may wait for a worker; upstream: 10 s.
    queue_timeout: float = 10.0
    #: How long a worker that owes an answer may be without a connection.
    reconnect_grace: float = 5.0
    #: How often a job is given out before it is dead.
    max_attempts: int = 3
    #: Whether a job is on disk before it is given out. The text promises no persistence.
    strict: bool = False
    #: Bytes a payload may have.
    payload_limit: int = 16 * 1024 * 1024
    #: Longer timeouts in a JOB are cut to this.
    longest_timeout_ms: int = LONGEST_TIMEOUT_MS
    #: How long an answered request is remembered, so that a resend is not a new job.
    resend_window: float = 60.0
    #: How many answered requests are remembered at most; the oldest go first.
    remembered: int = 10_000
    #: How many workers one link may have.
    max_workers: int = 100_000
    #: Services whose results are remembered by content.
    memoized: frozenset[str] = frozenset()
