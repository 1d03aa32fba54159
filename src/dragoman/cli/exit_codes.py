"""Exit codes: every error becomes one line on standard error and an exit code."""

import sys
from collections.abc import Callable, Sequence
from typing import Final

import typer

from dragoman.extras import explain_missing, find_extra
from dragoman.ledger.base import LedgerError
from dragoman.model.content import Unmappable
from dragoman.sdk.errors import (
    Denied,
    DragomanError,
    Expired,
    JobFailed,
    Refused,
    StillRunning,
    Unreachable,
)

#: The first class that matches decides.
_CODES: Final[tuple[tuple[type[BaseException], int], ...]] = (
    (Unreachable, 3),
    (ConnectionError, 3),
    (Denied, 4),
    (Refused, 4),
    (Expired, 5),
    (StillRunning, 5),
    (JobFailed, 1),
    (DragomanError, 1),
    (LedgerError, 1),
    (Unmappable, 2),
    (ValueError, 2),
    (OSError, 1),
)

#: Commands whose packages several extras have: the extra that has all of them.
_EXTRAS: Final = {"pipeline": "spark", "spark-worker": "spark", "up": "broker", "demo": "all"}


def run_to_exit_code(app: Callable[[], object]) -> int:
    """Run the application; print the error, if any, and return the exit code."""
    try:
        app()
    except SystemExit as leaving:
        # The argument parser has printed wrong usage already.
        return leaving.code if isinstance(leaving.code, int) else 1
    except ModuleNotFoundError as error:
        return _name_extra(error, sys.argv[1:])
    except Exception as error:
        for kind, code in _CODES:
            if isinstance(error, kind):
                typer.echo(f"dragoman: {_words(error)}", err=True)
                return code
        raise
    return 0


def _words(error: Exception) -> str:
    """Return the error's text; of the operating system's errors without their number."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _name_extra(error: ModuleNotFoundError, words: Sequence[str]) -> int:
    """Print which extra a command needs; raise the error if no extra helps."""
    command = next((word for word in words if not word.startswith("-")), "")
    wanted = _EXTRAS.get(command, "")
    if not find_extra(error, wanted):
        raise error
    typer.echo(f"dragoman: {explain_missing(error, f'`dragoman {command}`', wanted)}", err=True)
    return 2
