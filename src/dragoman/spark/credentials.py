"""Credentials of executors: the driver sends a reference, never the secret itself.

Spark pickles, stores and displays what goes to executors. So the driver says *where* credentials
are, and every executor reads them itself. A reference is a path (of a file that `dragoman keys new`
wrote), `env:NAME` for an environment variable with such a path, or empty for `DRAGOMAN_KEY_FILE`.
"""

import os
import socket
from pathlib import Path
from typing import Final

from dragoman.sdk.credentials import FILE_VARIABLE, Credentials, find_credentials

#: The prefix of a reference to an environment variable.
BY_VARIABLE: Final = "env:"
#: The fault code of rows whose executor does not have the credentials.
NO_CREDENTIALS: Final = "no_credentials"


class CredentialsMissing(Exception):
    """This machine does not have the credentials. The message says what is missing where."""


def reference(credentials: str | Path | None) -> str:
    """Return a reference for executors. Raises TypeError for the secrets themselves."""
    if isinstance(credentials, Credentials):
        raise TypeError(
            "Spark would store these credentials with the task; "
            "give the path of a file that each executor has, or env:NAME"
        )
    return str(credentials) if credentials else ""


def file_of(reference: str) -> Path | None:
    """Return the credentials file on this machine, if any. Raises `CredentialsMissing`."""
    if not reference.startswith(BY_VARIABLE):
        path = reference or os.environ.get(FILE_VARIABLE, "")
        return Path(path) if path else None
    name = reference.removeprefix(BY_VARIABLE)
    if not os.environ.get(name):
        host = socket.gethostname()
        raise CredentialsMissing(f"executor {host}: the environment variable {name} is not set")
    return Path(os.environ[name])


def open_credentials(reference: str) -> Credentials:
    """Read the credentials of a reference on this machine. Raises `CredentialsMissing`."""
    try:
        return find_credentials(file_of(reference))
    except ValueError as error:
        raise CredentialsMissing(f"executor {socket.gethostname()}: {error}") from None


def stamp_of(reference: str) -> tuple[int, ...]:
    """Return inode, size and time of a reference's file. Raises `CredentialsMissing`."""
    path = file_of(reference)
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return ()
    return (found.st_ino, found.st_size, found.st_mtime_ns) if found else ()
