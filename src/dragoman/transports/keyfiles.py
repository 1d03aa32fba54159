"""Reads files with secrets, if only their owner can read them."""

from pathlib import Path
from typing import Final

_OTHERS: Final = 0o077


def read_private(path: Path) -> str:
    """Return the text of a private file. Raises ValueError if others can read it."""
    try:
        mode, text = path.stat().st_mode, path.read_text()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    if mode & _OTHERS:
        raise ValueError(f"other users can read {path}; run: chmod 600 {path}")
    return text
