"""Result backends, which are not needed here: the broker keeps results."""

from typing import Any


class IgnoredBackend:
    """A backend of Dramatiq. It does nothing."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.options = options


RedisBackend = MemcachedBackend = StubBackend = IgnoredBackend
