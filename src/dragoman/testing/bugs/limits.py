"""Planted bugs of limits: too many jobs run, a slot is lost, a token is spent twice."""

from collections.abc import Iterator
from typing import Final

from dragoman.core import recovery, workers
from dragoman.core.jobs import JobPart
from dragoman.core.limit_state import LimitState
from dragoman.core.limiters import Limiter, Limiters
from dragoman.core.registry import RegisteredWorker
from dragoman.core.state import BrokerState
from dragoman.model.limit import Limit
from dragoman.testing.bugs.planting import Bugs, replaced

BUGS: Final = Bugs()


@BUGS.add
def limit_exceeded_after_a_restart() -> Iterator[None]:
    """Jobs that run while the broker restarts do not count."""

    def await_worker(state: BrokerState, part: JobPart) -> None:
        old(state, part)
        state.limiters.release(part)

    old = recovery._await_worker
    with replaced(recovery, "_await_worker", await_worker):
        yield


@BUGS.add
def slot_lost_with_its_worker() -> Iterator[None]:
    """A job whose worker was lost keeps its slot."""

    def requeue_all(state: BrokerState, worker: RegisteredWorker, reason: str) -> None:
        with replaced(Limiters, "release", lambda self, part: None):
            old(state, worker, reason)

    old = workers._requeue_all
    with replaced(workers, "_requeue_all", requeue_all):
        yield


@BUGS.add
def token_spent_twice() -> Iterator[None]:
    """One token starts two jobs."""

    def next_token(self: Limiters, limiter: Limiter, limit: Limit) -> float:
        found = old(self, limiter, limit)
        return found - limit.period if limit.rate else found

    old = Limiters.next_token
    with replaced(Limiters, "next_token", next_token):
        yield


@BUGS.add
def limit_of_a_key_not_reopened() -> Iterator[None]:
    """Jobs that waited for a limit are forgotten when it has room again."""
    with replaced(Limiters, "reopen", lambda self, limiter: None):
        yield


@BUGS.add
def spent_tokens_not_recorded() -> Iterator[None]:
    """A dispatch takes no token of the recorded bucket."""
    with replaced(LimitState, "spend", lambda self, part, at: None):
        yield
