"""The lock service: names that are locked or free. No owner, no lease, no waiting."""

import threading

from examples.dagbox.parts import BadPart, error, options, read, with_fallback, write

from dragoman import Worker

SERVICE = "lock"


class Locks:
    """The locked names, in memory only."""

    def __init__(self) -> None:
        self._held: set[str] = set()
        self._mutex = threading.Lock()

    def answer(self, *parts: bytes) -> list[bytes]:
        """Lock or unlock, part by part, as one atomic step."""
        with self._mutex:
            return [self._change(part) for part in parts]

    def _change(self, part: bytes) -> bytes:
        try:
            request = read(part, key=str, lock=bool)
        except BadPart as problem:
            return error(problem)
        key, is_held = request["key"], request["key"] in self._held
        if request["lock"] == is_held:
            return write(False)
        if is_held:
            self._held.remove(key)
        else:
            self._held.add(key)
        return write(True)


def worker(url: str) -> Worker:
    """Make the worker. There must be only one, since the locks are in its memory."""
    return with_fallback(Worker(url, service=SERVICE), Locks().answer)


if __name__ == "__main__":
    worker(options("DagBox's lock service.", with_folder=False).url).run()
