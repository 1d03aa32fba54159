"""Files with secrets: read if they are their owner's alone, and not otherwise."""

from pathlib import Path
from typing import Final

_OTHERS: Final = 0o077


def read_private(path: Path) -> str:
    """Return the text of a file that nobody else can read. Raises ValueError, in words."""
    try:
        mode, text = path.stat().st_mode, path.read_text()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    if mode & _OTHERS:
        raise ValueError(f"{path} can be read by others; make it yours alone: chmod 600 {path}")
    return text
