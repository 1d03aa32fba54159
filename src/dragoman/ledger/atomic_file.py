"""Atomic replacement of a file: a power failure leaves the old file or the new one, whole."""

import os
from collections.abc import Callable
from pathlib import Path


def no_step_hook(step: str) -> None:
    """Do nothing before a step. A test passes a hook that stops there."""


def rename_durably(draft: Path, path: Path, step: Callable[[str], None] = no_step_hook) -> None:
    """Sync a file, rename it, and sync its directory."""
    step("sync file")
    _sync(draft, os.O_RDONLY)
    step("rename")
    os.replace(draft, path)
    step("sync directory")
    _sync(path.parent, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
