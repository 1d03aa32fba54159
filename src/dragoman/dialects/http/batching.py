"""Items that travel together in one HTTP request.

While a batch is under way, items are gathered for the next one. So the load sets the size of a
batch: a single item goes at once, and under load many share the cost of a request and of a disk
write.
"""

from collections import deque
from typing import Final

#: Items of one batch; well below what the broker takes.
MOST_ITEMS: Final = 256
#: Bytes of one batch. A larger item goes alone.
MOST_BYTES: Final = 256 * 1024


class Batching:
    """JSON items by key, in order; each key once."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[str, bytes]] = deque()
        #: The batches under way, by number.
        self._under_way: dict[int, list[tuple[str, bytes]]] = {}
        self._keys: set[str] = set()
        self._count = 0

    def add(self, key: str, item: bytes) -> None:
        """Add an item; the same key again is the same item."""
        if key not in self._keys:
            self._keys.add(key)
            self._waiting.append((key, item))

    def start(self) -> tuple[int, list[tuple[str, bytes]]] | None:
        """Start the next batch: its number and items. None if one is under way or none waits."""
        return None if self._under_way else self.start_another()

    def start_another(self) -> tuple[int, list[tuple[str, bytes]]] | None:
        """Start a batch even if one is under way: what follows must not overtake the items."""
        batch: list[tuple[str, bytes]] = []
        size = 0
        while self._waiting and len(batch) < MOST_ITEMS:
            size += len(self._waiting[0][1])
            if batch and size > MOST_BYTES:
                break
            batch.append(self._waiting.popleft())
        if not batch:
            return None
        self._count += 1
        self._under_way[self._count] = batch
        return self._count, batch

    def end(self, number: int) -> list[tuple[str, bytes]]:
        """End a batch; return its items."""
        ended = self._under_way.pop(number, [])
        self._keys.difference_update(key for key, _ in ended)
        return ended

    def put_back(self, number: int) -> None:
        """Let the items of a batch wait again, before all others."""
        self._waiting.extendleft(reversed(self._under_way.pop(number, [])))


def json_list(name: str, items: list[tuple[str, bytes]]) -> bytes:
    """Return a JSON object with one list of encoded items."""
    return b'{"%s":[%s]}' % (name.encode(), b",".join(item for _, item in items))
