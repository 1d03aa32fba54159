"""Result backends, which are not needed here: the broker keeps results."""


class IgnoredBackend:
    """A backend of Dramatiq. It does nothing."""

    def __init__(self, *args: object, **options: object) -> None:
        self.options = options


RedisBackend = MemcachedBackend = StubBackend = IgnoredBackend
