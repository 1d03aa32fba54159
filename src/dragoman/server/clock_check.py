"""Compares the wall clock with the ledger at the start.

A machine that starts with a wrong clock must not expire the queue. If the clock is far ahead of the
last record, either the broker was down for that long or the clock is wrong. Only a person can tell.
"""

from datetime import UTC, datetime
from typing import Final

from dragoman.core.job_store import JobStore
from dragoman.server.clock import SLEW, Clock

#: Seconds that the last record may be ahead of the wall clock without a word.
_TOLERANCE: Final = 1.0


def require_plausible(store: JobStore, wall: float, largest_jump: float) -> None:
    """Refuse to start if a jump of the clock would expire open jobs."""
    jump = wall - store.last_at
    if not store.last_seq or jump <= largest_jump:
        return
    open_jobs = [job for job in store.jobs.values() if not job.is_final]
    expiring = sum(1 for job in open_jobs if job.deadline_at and job.deadline_at <= wall)
    if expiring:
        raise ValueError(
            f"the clock says {_text(wall)}, {_span(jump)} after the last record "
            f"({_text(store.last_at)}), and {expiring} open jobs would expire. If the clock is "
            "right, start with --accept-clock. If not, set the clock first."
        )


def describe_clock(store: JobStore, clock: Clock, largest_jump: float) -> str:
    """Return what is remarkable about the clock at the start; empty: nothing."""
    if clock.ahead > _TOLERANCE:
        back = clock.ahead / SLEW
        return (
            f"clock: the last record is {_span(clock.ahead)} ahead of the wall clock; "
            f"the broker's clock runs slower for {_span(back)} to come back"
        )
    jump = clock.now() - store.last_at
    if store.last_seq and jump > largest_jump:
        return f"clock: it is {_span(jump)} after the last record"
    return ""


def _text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _span(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    if hours >= 48:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"
