"""`dragoman worker --reload`: starts the worker again when a Python file changes.

The worker is a child process, so nothing of the old code stays. This process only looks at the
times of the files; it needs no library for that.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import structlog

log = structlog.get_logger("dragoman.worker")

#: Seconds between two looks at the files.
LOOK_EVERY: Final = 0.5
#: Seconds that running jobs have to finish; after that they are handed back.
FINISH_WITHIN: Final = 5.0
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


def times_of(folder: Path) -> dict[str, int]:
    """Return the time of change of each Python file below a folder, without hidden folders."""
    found = {}
    for path, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if not f.startswith(".") and f not in _SKIPPED]
        for file in files:
            if file.endswith(".py"):
                full = os.path.join(path, file)
                try:
                    found[full] = os.stat(full).st_mtime_ns
                except OSError:
                    # An editor replaces the file right now; the next look finds it.
                    continue
    return found


def changed(before: Mapping[str, int], after: Mapping[str, int]) -> list[str]:
    """Return the files that are new, changed or gone."""
    return sorted(p for p in {*before, *after} if before.get(p) != after.get(p))


class Reloader:
    """Runs a worker's command, and again after each change, until it is told to stop."""

    def __init__(
        self,
        command: list[str],
        look: Callable[[], dict[str, int]],
        look_every: float = LOOK_EVERY,
        finish_within: float = FINISH_WITHIN,
    ) -> None:
        self._command = command
        self._look = look
        self._look_every = look_every
        self._finish_within = finish_within
        self._stopping = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Run until `stop`; return the exit status of the last worker."""
        seen = self._look()
        child = self._start()
        while not self._stopping.wait(self._look_every):
            if files := changed(seen, now := self._look()):
                seen = now
                log.info("files changed, the worker starts again", files=", ".join(files[:3]))
                self._end(child)
                child = self._start()
                if self._stopping.is_set():
                    # The signal came between the two workers.
                    self._end(child)
        return child.wait()

    def _start(self) -> "subprocess.Popen[bytes]":
        self._child = child = subprocess.Popen(self._command)
        return child

    def _end(self, child: "subprocess.Popen[bytes]") -> None:
        """Let running jobs finish; hand back what takes longer."""
        for _ in range(2):
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(self._finish_within)
                return
            except subprocess.TimeoutExpired:
                continue
        child.kill()
        child.wait()

    def stop(self, is_passed_on: bool) -> None:
        """Stop after the worker has ended. Ctrl-C reaches it by itself, SIGTERM is passed on."""
        self._stopping.set()
        if is_passed_on and self._child is not None:
            self._child.send_signal(signal.SIGTERM)


def run_reloading(folder: Path) -> int:
    """Run this command without `--reload`, again after each change below `folder`."""
    arguments = [one for one in sys.argv[1:] if one != "--reload"]
    reloader = Reloader([sys.executable, sys.argv[0], *arguments], lambda: times_of(folder))
    signal.signal(signal.SIGINT, lambda number, frame: reloader.stop(False))
    signal.signal(signal.SIGTERM, lambda number, frame: reloader.stop(True))
    return reloader.run()
