"""A peer's credentials: a file that `dragoman keys new` writes and only its owner can read.

The file is TOML with one table for each mechanism. A peer uses the one that its transport needs:

    [curve]                     # nfp, dcp, zss
    public = "..."              # Z85, 40 characters
    secret = "..."
    server = "..."              # the broker's public key
    [tls]                       # memo, http, ncl: PEM texts
    certificate = '''...'''     # the peer's own
    key = '''...'''             # the secret key of that certificate
    authority = '''...'''       # the authority that signed the broker's certificate
    [token]                     # http
    secret = "..."
    file = "..."                # or a file with a token that is renewed, such as a JWT
    [nkey]                      # ncl
    seed = "..."

Certificate files of pyzmq (`*.key_secret`), which NorFab's peers have, are read too. If no file is
given, `DRAGOMAN_KEY_FILE` names it. If the file has no broker key, `DRAGOMAN_SERVER_KEY` gives it.
Error messages and `repr` contain no secret.
"""

import os
import re
from pathlib import Path
from typing import Final

from dragoman.model.value import value
from dragoman.transports.keyfiles import read_private

FILE_VARIABLE: Final = "DRAGOMAN_KEY_FILE"
SERVER_VARIABLE: Final = "DRAGOMAN_SERVER_KEY"
#: The table and key of each member in the file.
_FIELDS: Final = {
    "public": ("curve", "public"),
    "secret": ("curve", "secret"),
    "server": ("curve", "server"),
    "certificate": ("tls", "certificate"),
    "key": ("tls", "key"),
    "authority": ("tls", "authority"),
    "token": ("token", "secret"),
    "token_file": ("token", "file"),
    "seed": ("nkey", "seed"),
}
_ZPL: Final = re.compile(r'^\s*(public|secret)-key\s*=\s*"([^"]{40})"', re.MULTILINE)


@value
class Credentials:
    """All credentials of one peer. An empty member is absent."""

    public: str = ""
    secret: str = ""
    server: str = ""
    certificate: str = ""
    key: str = ""
    authority: str = ""
    token: str = ""
    seed: str = ""
    #: A file with a bearer token; it is read for each request, since others renew it.
    token_file: str = ""

    def __repr__(self) -> str:
        """Name the members that are set, without their values."""
        present = [name for name in _FIELDS if getattr(self, name)]
        return f"Credentials({', '.join(present)})"

    @property
    def has_curve(self) -> bool:
        """Whether all three CURVE keys are there."""
        return bool(self.public and self.secret and self.server)

    @property
    def has_tls(self) -> bool:
        """Whether the peer uses TLS."""
        return bool(self.authority or self.certificate)

    def with_server(self, server: str) -> "Credentials":
        """Return a copy with another public key of the broker."""
        members = {name: getattr(self, name) for name in _FIELDS}
        return Credentials(**{**members, "server": server})


NONE: Final = Credentials()
#: What callers may pass as credentials: the object, a file, or None for the environment's file.
CredentialsLike = Credentials | str | Path | None


def find_credentials(given: CredentialsLike) -> Credentials:
    """Return the credentials themselves. Raises ValueError that names the file."""
    if isinstance(given, Credentials):
        return given
    path = given or os.environ.get(FILE_VARIABLE)
    found = read_credentials(Path(path)) if path else NONE
    server = os.environ.get(SERVER_VARIABLE, "")
    return found.with_server(server) if server and not found.server else found


def read_credentials(path: Path) -> Credentials:
    """Read a credentials file. Raises ValueError if it is invalid, or others can read it."""
    text = read_private(path)
    zpl = {f"{name}": key for name, key in _ZPL.findall(text)}
    if len(zpl) == len(("public", "secret")) and text.lstrip().startswith(("#", "metadata")):
        return Credentials(**zpl)
    import tomllib  # a program without credentials need not load it

    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not a credentials file: {error}") from None
    return _from_tables(path, tables)


def _from_tables(path: Path, tables: dict[str, object]) -> Credentials:
    members = {}
    for name, (table, key) in _FIELDS.items():
        entries = tables.get(table, {})
        if isinstance(entries, dict) and isinstance(entries.get(key, ""), str):
            members[name] = entries.get(key, "").strip()
    found = Credentials(**members)
    if found == NONE:
        known = sorted({table for table, _ in _FIELDS.values()})
        raise ValueError(f"{path} has no credentials; expected one of the tables {known}")
    return found


def write_credentials(path: Path, credentials: Credentials) -> None:
    """Write a credentials file that only its owner can read; replace an old one."""
    tables: dict[str, list[str]] = {}
    for name, (table, key) in _FIELDS.items():
        member = getattr(credentials, name)
        if member:
            quoted = f"'''\n{member}\n'''" if "\n" in member else f"'{member}'"
            tables.setdefault(table, []).append(f"{key} = {quoted}")
    text = "# Credentials of one peer. Keep this file secret.\n"
    text += "".join(f"[{table}]\n" + "\n".join(lines) + "\n" for table, lines in tables.items())
    scratch = path.with_name(path.name + ".part")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    scratch.rename(path)
