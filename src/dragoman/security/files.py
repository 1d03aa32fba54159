"""Small files that several processes read: replaced atomically, with a stamp to detect changes."""

import os
import stat
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


def only_owner() -> None:
    """Give files and folders that this process makes from now on to their owner only."""
    os.umask(0o077)


def make_private_folder(path: Path) -> str:
    """Make a folder for its owner only; return the problem if an existing one is open to others."""
    path.mkdir(0o700, parents=True, exist_ok=True)
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & 0o077:
        return ""
    return f"{path} is open to other users (mode {mode:04o}); run: chmod -R go-rwx {path}"


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
