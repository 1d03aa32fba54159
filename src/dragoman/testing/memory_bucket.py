"""The in-memory twin of a bucket: keys with a time to live, on a clock that the test owns."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class MemoryBucket:
    """What the servers hold together."""

    def __init__(self, ttl: float, clock: Callable[[], float]) -> None:
        self.ttl = ttl
        self._clock = clock
        self._revision = 0
        #: Key -> value, revision, when it was written.
        self._keys: dict[str, tuple[bytes, int, float]] = {}

    def get(self, key: str) -> tuple[bytes, int] | None:
        """Return value and revision, unless the time is over."""
        value, revision, at = self._keys.get(key, (b"", 0, float("-inf")))
        if self._clock() - at >= self.ttl:
            return None
        return value, revision

    def create(self, key: str, value: bytes) -> int | None:
        """Create a key; return its revision, or None if it exists."""
        return None if self.get(key) is not None else self._put(key, value)

    def update(self, key: str, value: bytes, revision: int) -> int | None:
        """Replace a revision; return the new one, or None if the key has another revision."""
        found = self.get(key)
        is_current = found is not None and found[1] == revision
        return self._put(key, value) if is_current else None

    def delete(self, key: str, revision: int) -> bool:
        """Delete a key that has this revision."""
        found = self.get(key)
        if found is None or found[1] != revision:
            return False
        del self._keys[key]
        return True

    def _put(self, key: str, value: bytes) -> int:
        self._revision += 1
        self._keys[key] = (value, self._revision, self._clock())
        return self._revision


class BucketConnection:
    """One node's connection to the bucket, which may be cut or lose answers."""

    def __init__(self, bucket: MemoryBucket, fails: Callable[[], bool] = lambda: False) -> None:
        self._bucket = bucket
        self._fails = fails  #: tells whether the answer of this call is lost
        self.is_cut = False

    def get(self, key: str) -> tuple[bytes, int] | None:
        """Return value and revision."""
        return self._answered(lambda: self._bucket.get(key))

    def create(self, key: str, value: bytes) -> int | None:
        """Create a key."""
        return self._answered(lambda: self._bucket.create(key, value))

    def update(self, key: str, value: bytes, revision: int) -> int | None:
        """Replace a revision."""
        return self._answered(lambda: self._bucket.update(key, value, revision))

    def delete(self, key: str, revision: int) -> bool:
        """Delete a revision."""
        return self._answered(lambda: self._bucket.delete(key, revision))

    def _answered(self, call: Callable[[], T]) -> T:
        if self.is_cut:
            raise ConnectionError("the simulated bucket is not reachable")
        found = call()
        if self._fails():
            raise TimeoutError("no answer of the simulated bucket")
        return found
