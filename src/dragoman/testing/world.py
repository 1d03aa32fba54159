"""The simulated world: one clock, one source of chance, one list of what comes next.

Nothing here waits, and nothing here knows about brokers. What happens is written into a hash, so
that two runs of one seed can be compared, and into a short memory, so that a failure can be shown.
"""

from collections import Counter, deque
from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from random import Random
from typing import Any, Final

#: Any instant will do; one with a fraction shows who compares clocks carelessly.
EPOCH: Final = 1_700_000_000.25
#: Exchanges shown when a run fails.
REMEMBERED: Final = 60


class World:
    """Time, chance, and everything that is going to happen."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.now = EPOCH
        #: Things that happened so far; a failure names the last.
        self.steps = 0
        #: Injected faults by kind.
        self.faults: Counter[str] = Counter()
        #: While false, nothing goes wrong any more.
        self.is_faulty = True
        self._coming: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = 0
        self._hash = blake2b(digest_size=16)
        self._tail: deque[tuple[float, str, str, str]] = deque(maxlen=REMEMBERED)

    def after(self, delay: float, action: Callable[..., None], *args: Any) -> None:
        """Let something happen in `delay` seconds."""
        self.at(self.now + delay, action, *args)

    def at(self, instant: float, action: Callable[..., None], *args: Any) -> None:
        """Let something happen at an instant; what is for the same one happens in this order."""
        self._order += 1
        heappush(self._coming, (instant, self._order, action, args))

    def step(self) -> bool:
        """Let the next thing happen; tell whether there was one."""
        if not self._coming:
            return False
        at, _, action, args = heappop(self._coming)
        self.now = max(self.now, at)
        self.steps += 1
        action(*args)
        return True

    def next_at(self) -> float:
        """When the next thing happens; never, if nothing is left."""
        return self._coming[0][0] if self._coming else float("inf")

    def chance(self, probability: float) -> bool:
        """Draw: true with this probability."""
        return self.random.random() < probability

    def fault(self, kind: str) -> None:
        """Count an injected fault."""
        self.faults[kind] += 1
        self.note("chaos", "", kind)

    def note(self, source: str, destination: str, what: str) -> None:
        """Put something that happened into the trace."""
        self._hash.update(f"{self.now:.6f} {source} {destination} {what}\n".encode())
        self._tail.append((self.now, source, destination, what))

    @property
    def trace(self) -> str:
        """The hash over everything that has happened."""
        return self._hash.hexdigest()

    def diagram(self) -> str:
        """Draw the last exchanges: when, who, to whom, what."""
        lines = []
        for at, source, destination, what in self._tail:
            arrow = (
                f"{source:>12} -> {destination:<12}" if destination else f"{source:>12}  *  {'':12}"
            )
            lines.append(f"{at - EPOCH:10.4f}  {arrow}  {what}")
        return "\n".join(lines)
