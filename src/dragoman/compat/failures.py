"""Failures of jobs as the exceptions that their tasks raised, rebuilt from the fault's text."""

import builtins
import re
from typing import Final

from dragoman.model.fault import Fault

_WRAPPED: Final = re.compile(r"^(?:Permanent: |TryAgain: after [\d.]+ s: ?)+")
_NAMED: Final = re.compile(r"^((?:\w+\.)*)([A-Z]\w*)(?:: (.*))?$", re.DOTALL)


def plain_message(message: str) -> str:
    """Return a fault's message without the words that are for the broker."""
    return _WRAPPED.sub("", message)


def rebuild(fault: Fault) -> Exception:
    """Return the exception of a task: a built-in class, or one that is made by its name."""
    first, _, rest = plain_message(fault.message).partition("\n")
    found = _NAMED.match(first)
    if found is None:
        return RuntimeError(first or str(fault.code))
    name, text = found[2], found[3] or ""
    if name == "KeyError" and text[:1] == text[-1:] == "'":
        text = text[1:-1]  # a KeyError writes its key as code
    error = _class(name)(text)
    if rest:
        error.add_note(rest)
    return error


def _class(name: str) -> type[Exception]:
    known = getattr(builtins, name, None)
    if isinstance(known, type) and issubclass(known, Exception):
        try:
            known("text")
        except TypeError:
            return type(name, (Exception,), {})
        return known
    return type(name, (Exception,), {})
