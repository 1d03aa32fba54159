"""Whom executors speak for: a reference to what each of them has, never the secret itself.

What goes to executors is pickled into a closure, kept by Spark, and shown in its pages. So a driver
says *where* credentials are, and every executor looks there for itself: a file (as `dragoman keys
new` writes it), `env:NAME` for a variable that names the file, or nothing for `DRAGOMAN_KEY_FILE`,
if that is set there.
"""

import os
import socket
from pathlib import Path
from typing import Final

from dragoman.sdk.credentials import FILE_VARIABLE, Credentials, find_credentials

#: Before the name of a variable that names a file.
BY_VARIABLE: Final = "env:"
#: The code of the fault of rows whose executor has not what the driver spoke of.
NO_CREDENTIALS: Final = "no_credentials"


class CredentialsMissing(Exception):
    """This machine has not what the reference speaks of. The message says what and where."""


def reference(said: str | Path | None) -> str:
    """Return what may travel to executors. Raises TypeError for the secrets themselves."""
    if isinstance(said, Credentials):
        raise TypeError(
            "credentials would travel to the executors inside the task, and be kept by Spark; "
            "give the path of a file that each executor has, or env:NAME"
        )
    return str(said) if said else ""


def file_of(said: str) -> Path | None:
    """Return the file that is meant on this machine; None: none is. Raises `CredentialsMissing`."""
    if not said.startswith(BY_VARIABLE):
        path = said or os.environ.get(FILE_VARIABLE, "")
        return Path(path) if path else None
    name = said.removeprefix(BY_VARIABLE)
    if not os.environ.get(name):
        raise CredentialsMissing(f"executor {socket.gethostname()}: the variable {name} is not set")
    return Path(os.environ[name])


def open_credentials(said: str) -> Credentials:
    """Read what a reference leads to on this machine. Raises `CredentialsMissing`."""
    try:
        return find_credentials(file_of(said))
    except ValueError as error:
        raise CredentialsMissing(f"executor {socket.gethostname()}: {error}") from None


def stamp_of(said: str) -> tuple[int, ...]:
    """Return what changes when the file of a reference is replaced. Raises `CredentialsMissing`."""
    path = file_of(said)
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return ()
    return (found.st_ino, found.st_size, found.st_mtime_ns) if found else ()
