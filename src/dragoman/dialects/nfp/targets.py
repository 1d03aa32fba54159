"""Target frames: `any`, `all`, names.

NorFab writes several names as a JSON list, the text with commas. Both forms are accepted from every
peer. Labels and resources are our additions, in the text form of `model.target`.
"""

from functools import lru_cache

import msgspec

from dragoman.model.names import WorkerName
from dragoman.model.target import ALL, Named, Target, parse_target


@lru_cache(maxsize=1024)
def read_target(text: str, is_binary: bool) -> Target:
    """Decode a target frame. Raises ValueError with a text for the client.

    An empty target means `all` in the text, and no worker for NorFab.
    """
    if not text.strip():
        if is_binary:
            return ALL
        raise ValueError("the target is empty: use any, all, or worker names")
    names = _listed(text)
    return parse_target(text) if names is None else Named(tuple(map(WorkerName, names)))


def _listed(text: str) -> tuple[str, ...] | None:
    """Decode a JSON list of names; None if it is not a list."""
    if not text.startswith("["):
        return None
    try:
        names = msgspec.json.decode(text, type=list[str])
    except msgspec.MsgspecError as error:
        raise ValueError(f"the target is not a JSON list of worker names: {error}") from None
    if not names:
        raise ValueError("the target is an empty list")
    return tuple(dict.fromkeys(names))


def asked_names(text: str) -> tuple[str, ...]:
    """Return the workers that a GET names; none means all workers of the job."""
    try:
        target = read_target(text, is_binary=True)
    except ValueError:
        return ()
    return target.names if isinstance(target, Named) else ()


def only_name(text: str) -> str:
    """Return the one worker that a PUT names; empty means every worker of the job."""
    names = asked_names(text)
    return names[0] if len(names) == 1 else ""


def write_target(target: Target) -> bytes:
    """Encode a target frame: names as NorFab's JSON list, other targets as text."""
    if isinstance(target, Named):
        return msgspec.json.encode(target.names)
    return str(target).encode()
