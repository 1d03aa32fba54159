"""What a compatibility layer does not have, and what to write instead."""

import os
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

import structlog

from dragoman.dialects.registry import DIALECTS

log = structlog.get_logger("dragoman.compat")

#: The broker that is used if a program names one of another kind.
DEFAULT_URL: Final = "nfp://127.0.0.1:5555"
#: Seconds that a job has if the program says nothing: its task queue would wait without end.
PATIENT: Final = 30 * 86_400.0


class NotInCompat(NotImplementedError):
    """Something that this layer does not have. The text says what to write instead."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what} is not in Dragoman's compatibility layer: {hint}")


def refuse_unknown(where: str, given: Mapping[str, object], hints: Mapping[str, str]) -> None:
    """Raise `NotInCompat` for the first option that is given and is not None."""
    for name, found in given.items():
        if found is not None:
            hint = hints.get(name, "remove it, or use the Dragoman SDK")
            raise NotInCompat(f"the option {name!r} of {where}", hint)


def module_getattr(module: str, hints: Mapping[str, str]) -> Callable[[str], NoReturn]:
    """Return the `__getattr__` of a module: names of the other queue raise with a hint."""

    def find(name: str) -> NoReturn:
        if name in hints:
            # ImportError: `from x import y` would replace the text of an AttributeError.
            raise ImportError(f"{name} is not in {module}: {hints[name]}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return find


def broker_url(given: str | None) -> str:
    """Return the URL of the Dragoman broker: a program may still name its old broker."""
    url = (given or "").strip()
    if url.partition("://")[0] in DIALECTS:
        return url
    found = os.environ.get("DRAGOMAN_URL", "").strip() or DEFAULT_URL
    if url:
        scheme = url.partition("://")[0]
        log.info("another broker is used", named=scheme, used=found, change="DRAGOMAN_URL")
    return found
