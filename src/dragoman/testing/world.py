"""The simulated world: one clock, one random source, one queue of actions.

It never waits and knows nothing of brokers. A hash over the trace lets two runs of one seed be
compared. The last exchanges are kept to show a failure.
"""

from collections import Counter, deque
from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from random import Random
from typing import Final

#: Has a fraction, so that careless comparisons of clocks show.
EPOCH: Final = 1_700_000_000.25
#: Exchanges shown when a run fails.
REMEMBERED: Final = 60


class World:
    """The clock, the random source and the scheduled actions."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.now = EPOCH
        #: Number of actions so far; a failure names the last.
        self.steps = 0
        #: Injected faults by kind.
        self.faults: Counter[str] = Counter()
        #: While False, no faults are injected.
        self.is_faulty = True
        self._coming: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._order = 0
        self._hash = blake2b(digest_size=16)
        self._tail: deque[tuple[float, str, str, str]] = deque(maxlen=REMEMBERED)

    def after(self, delay: float, action: Callable[..., None], *args: object) -> None:
        """Schedule an action in `delay` seconds."""
        self.at(self.now + delay, action, *args)

    def at(self, instant: float, action: Callable[..., None], *args: object) -> None:
        """Schedule an action. Actions for the same instant run in the order they were scheduled."""
        self._order += 1
        heappush(self._coming, (instant, self._order, action, args))

    def step(self) -> bool:
        """Run the next action; return whether there was one."""
        if not self._coming:
            return False
        at, _, action, args = heappop(self._coming)
        self.now = max(self.now, at)
        self.steps += 1
        action(*args)
        return True

    def next_at(self) -> float:
        """Return the time of the next action; infinity if there is none."""
        return self._coming[0][0] if self._coming else float("inf")

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.random.random() < probability

    def fault(self, kind: str) -> None:
        """Count an injected fault."""
        self.faults[kind] += 1
        self.note("chaos", "", kind)

    def note(self, source: str, destination: str, what: str) -> None:
        """Add an entry to the trace."""
        self._hash.update(f"{self.now:.6f} {source} {destination} {what}\n".encode())
        self._tail.append((self.now, source, destination, what))

    @property
    def trace(self) -> str:
        """The hash over the whole trace."""
        return self._hash.hexdigest()

    def diagram(self) -> str:
        """Return the last exchanges as a message diagram."""
        lines = []
        for at, source, destination, what in self._tail:
            arrow = (
                f"{source:>12} -> {destination:<12}" if destination else f"{source:>12}  *  {'':12}"
            )
            lines.append(f"{at - EPOCH:10.4f}  {arrow}  {what}")
        return "\n".join(lines)
