"""Files and folders that survive a power failure.

A file is replaced atomically: the old one is left or the new one, whole. A new folder has its name
on the disk before anything in it is promised.
"""

import contextlib
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


def make_folder(path: Path) -> None:
    """Make a folder for its owner only, with its parents, and sync their names."""
    made = [path, *(parent for parent in path.parents if not parent.exists())]
    path.mkdir(0o700, parents=True, exist_ok=True)
    for folder in made:
        # The name of an existing folder is synced too: its maker may not have done so.
        # A parent that this user cannot read was made by another, long ago.
        with contextlib.suppress(PermissionError):
            _sync(folder.parent, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
