"""Small files that several processes read: replaced atomically, with a stamp to detect changes."""

import os
from pathlib import Path

#: Modification time, size and inode. Every replacement has a new inode.
Stamp = tuple[int, int, int]


def stamp_of(path: Path) -> Stamp | None:
    """Return a file's stamp; None if there is no file."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def replace_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace a file atomically, so that it survives a power cut."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with open(os.open(draft, flags, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
