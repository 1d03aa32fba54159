"""Recognises the dialect of a message, to name it if a peer uses the port of another one."""

from collections.abc import Sequence
from typing import Final

from dragoman.dialects.listeners import LISTENERS
from dragoman.dialects.registry import DIALECTS

#: The header is the first or second frame; ZSS has an address before it.
_FIRST: Final = 3
_OF_HEADER: Final = {header: each.name for each in DIALECTS.values() for header in each.headers}


def dialect_of(frames: Sequence[bytes]) -> str:
    """Return the dialect of a message over ZeroMQ; empty if it is unknown."""
    return next((_OF_HEADER[f] for f in map(bytes, frames[:_FIRST]) if f in _OF_HEADER), "")


def name_other_dialect(link: str, frames: Sequence[bytes]) -> str:
    """Say which dialect a message of a link is in, and its usual port; empty if it is the link's.

    A link has the name of its listener.
    """
    found = dialect_of(frames)
    own = next((each.dialect for each in LISTENERS if each.name == link), link)
    if not found or found == own:
        return ""
    ports = " or ".join(str(each.port) for each in LISTENERS if each.dialect == found)
    return f"this is a message of {found}, whose usual port is {ports}"
