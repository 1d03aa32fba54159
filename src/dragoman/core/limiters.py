"""Limiters: which parts run under a limit, and which wait for it.

A part may be under three limits: of its service, of its task, and of its job's own key. The rules
of services and tasks and the spent tokens are part of the fold (`LimitState`); who runs follows
from the state of the parts. Nothing here dispatches: `Limiters.freed` says what to serve.
"""

from typing import TYPE_CHECKING, Final

from dragoman.core.deadlines import Deadlines, Timer, TimerKind
from dragoman.core.jobs import JobPart
from dragoman.core.limit_state import LimitState, key_name
from dragoman.model.limit import Limit
from dragoman.model.names import ServiceName

if TYPE_CHECKING:
    from dragoman.core.lanes import KeyedParts, QueueLane

_NONE: Final[tuple["Rule", ...]] = ()


class Limiter:
    """One limit in use: the parts that run under it, and the lanes that wait for it."""

    __slots__ = ("keyed", "lanes", "name", "running", "timer")

    def __init__(self, name: str) -> None:
        self.name = name
        self.running: dict[JobPart, None] = {}
        #: Lanes whose parts are all under this limit of a service or task.
        self.lanes: dict[QueueLane, None] = {}
        #: Waiting parts of one limit key, with their lane.
        self.keyed: dict[KeyedParts, QueueLane] = {}
        #: Runs while the next token is awaited.
        self.timer: Timer | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing needs it."""
        return not (self.running or self.lanes or self.keyed or self.timer)

    def is_full(self, limit: Limit) -> bool:
        """Tell whether as many parts run as may run."""
        return 0 < limit.concurrency <= len(self.running)

    def waiting_lanes(self) -> dict["QueueLane", None]:
        """Return the lanes with parts under this limit."""
        return self.lanes or dict.fromkeys(self.keyed.values())


#: A limiter, and the numbers that apply to a part.
Rule = tuple[Limiter, Limit]


class Limiters:
    """All limiters in use, by name."""

    def __init__(self, state: LimitState, deadlines: Deadlines) -> None:
        self._state = state
        self._deadlines = deadlines
        self.by_name: dict[str, Limiter] = {}
        #: Limiters with a slot that was given back and not offered to other workers yet.
        self.freed: dict[Limiter, None] = {}

    def _limiter(self, name: str) -> Limiter:
        found = self.by_name.get(name)
        if found is None:
            found = self.by_name[name] = Limiter(name)
        return found

    def rules_of_lane(self, service: ServiceName, task: str) -> tuple[Rule, ...]:
        """Return the limits of a service and of a task."""
        if not self._state.rules:
            return _NONE
        found = self._state.rules_of(service, task)
        return tuple((self._limiter(name), limit) for name, limit in found)

    def rule_of_key(self, part: JobPart) -> Rule | None:
        """Return the limit of a part's own key."""
        limit = part.job.terms.limit
        return None if limit is None else (self._limiter(key_name(part, limit)), limit)

    def rules_of(self, part: JobPart) -> tuple[Rule, ...]:
        """Return every limit of a part."""
        rules = self.rules_of_lane(part.service, part.task)
        own = self.rule_of_key(part)
        return rules if own is None else (*rules, own)

    def admits(self, part: JobPart, now: float) -> bool:
        """Tell whether the limits let a part start now."""
        if part.job.terms.limit is None and not self._state.rules:
            return True
        return self.are_open(self.rules_of(part), now)

    def are_open(self, rules: tuple[Rule, ...], now: float) -> bool:
        """Tell whether all limits have room. If only a token is missing, wait for it."""
        blocking = self.blocking(rules, now)
        if blocking is None:
            return True
        limiter, limit = blocking
        if not limiter.is_full(limit):
            self._await_token(limiter, self.next_token(limiter, limit))
        return False

    def blocking(self, rules: tuple[Rule, ...], now: float) -> Rule | None:
        """Return the first limit that is reached."""
        for limiter, limit in rules:
            if limiter.is_full(limit):
                return limiter, limit
            # While the timer runs, others wait already: nobody takes their token before them.
            if limit.rate and (limiter.timer or self.next_token(limiter, limit) > now):
                return limiter, limit
        return None

    def next_token(self, limiter: Limiter, limit: Limit) -> float:
        """Return when a limiter has a token; 0: it needs none."""
        if not limit.rate:
            return 0.0
        return limit.next_token(self._state.full_at.get(limiter.name, 0.0))

    def _await_token(self, limiter: Limiter, at: float) -> None:
        if limiter.timer is not None:
            if limiter.timer.at <= at:
                return
            self._deadlines.cancel(limiter.timer)
        limiter.timer = self._deadlines.set(at, TimerKind.TOKEN, limiter)

    def hold(self, part: JobPart) -> None:
        """Count a part that runs. The fold takes its tokens."""
        if part.job.terms.limit is None and not self._state.rules:
            return
        limiters = tuple(limiter for limiter, _ in self.rules_of(part))
        part.slots = limiters or None
        for limiter in limiters:
            limiter.running[part] = None

    def release(self, part: JobPart) -> None:
        """Count a part that no longer runs; note which limits have room again."""
        limiters, part.slots = part.slots, None
        for limiter in limiters or ():
            del limiter.running[part]
            self.reopen(limiter)

    def reopen(self, limiter: Limiter) -> None:
        """Let the parts that wait for a limiter be considered again; drop an idle limiter."""
        if limiter.lanes or limiter.keyed:
            self.freed[limiter] = None
            for parts, lane in limiter.keyed.items():
                lane.reopen(parts)
        else:
            self.tidy(limiter)

    def tidy(self, limiter: Limiter) -> None:
        """Drop a limiter that nothing needs: clients invent keys."""
        if limiter.is_idle and self.by_name.get(limiter.name) is limiter:
            del self.by_name[limiter.name]
            self.freed.pop(limiter, None)
