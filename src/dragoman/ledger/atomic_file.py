"""Giving a finished file its name so that a power cut leaves the old one or the new one whole."""

import os
from collections.abc import Callable
from pathlib import Path


def no_step_hook(step: str) -> None:
    """Go on to the next step: what is called before each, unless a test wants to stop there."""


def rename_durably(draft: Path, path: Path, step: Callable[[str], None] = no_step_hook) -> None:
    """Sync a file, rename it, and sync the directory that holds both names."""
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
