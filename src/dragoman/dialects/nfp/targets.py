"""Targets on the wire: `any`, `all`, names.

NorFab writes several names as a JSON list, the text with commas; both are read from everybody.
Labels and resources are ours, in the text form of the house.
"""

from functools import lru_cache

import msgspec

from dragoman.model.names import WorkerName
from dragoman.model.target import ALL, Named, Target, parse_target


@lru_cache(maxsize=1024)
def read_target(text: str, is_binary: bool) -> Target:
    """Read a target frame. Raises ValueError with a sentence for the client.

    Empty means everybody in the text (`all` is its default) and nobody to NorFab.
    """
    if not text.strip():
        if is_binary:
            return ALL
        raise ValueError("the target is empty: say any, all, or worker names")
    names = _listed(text)
    return parse_target(text) if names is None else Named(tuple(map(WorkerName, names)))


def _listed(text: str) -> tuple[str, ...] | None:
    """Read a JSON list of names; None: it is none."""
    if not text.startswith("["):
        return None
    try:
        names = msgspec.json.decode(text, type=list[str])
    except msgspec.MsgspecError as why:
        raise ValueError(f"the target is not a JSON list of worker names: {why}") from None
    if not names:
        raise ValueError("the target names nobody")
    return tuple(dict.fromkeys(names))


def asked_names(text: str) -> tuple[str, ...]:
    """Return the workers that a GET is about; none: all of the job's."""
    try:
        target = read_target(text, is_binary=True)
    except ValueError:
        return ()
    return target.names if isinstance(target, Named) else ()


def only_name(text: str) -> str:
    """Return the one worker that a PUT is for; empty: whoever runs the job."""
    names = asked_names(text)
    return names[0] if len(names) == 1 else ""


def write_target(target: Target) -> bytes:
    """Write a target frame: names as NorFab's JSON list, all else as text."""
    if isinstance(target, Named):
        return msgspec.json.encode(target.names)
    return str(target).encode()
