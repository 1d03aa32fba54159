"""What a peer proves itself with: a file, written by `dragoman keys new`, that only it can read.

The file is TOML with a part for each way there is; a peer uses the one that its transport has:

    [curve]                     # nfp, dcp, zss
    public = "..."              # Z85, 40 characters
    secret = "..."
    server = "..."              # the broker's public key
    [tls]                       # memo, http, ncl: PEM texts
    certificate = '''...'''     # the peer's own, and the key for it
    key = '''...'''
    authority = '''...'''       # who vouches for the broker
    [token]                     # http
    secret = "..."
    [nkey]                      # ncl
    seed = "..."

Certificate files of pyzmq (`*.key_secret`), such as NorFab's peers have, are read as well. Where no
file is given, `DRAGOMAN_KEY_FILE` names it, and `DRAGOMAN_SERVER_KEY` the broker's key, if the file
does not say. Nothing here shows a secret.
"""

import os
import re
import tomllib
from pathlib import Path
from typing import Any, Final

from dragoman.model.value import value
from dragoman.transports.keyfiles import read_private

FILE_VARIABLE: Final = "DRAGOMAN_KEY_FILE"
SERVER_VARIABLE: Final = "DRAGOMAN_SERVER_KEY"
#: Where each member is in the file.
_PLACES: Final = {
    "public": ("curve", "public"),
    "secret": ("curve", "secret"),
    "server": ("curve", "server"),
    "certificate": ("tls", "certificate"),
    "key": ("tls", "key"),
    "authority": ("tls", "authority"),
    "token": ("token", "secret"),
    "seed": ("nkey", "seed"),
}
_ZPL: Final = re.compile(r'^\s*(public|secret)-key\s*=\s*"([^"]{40})"', re.MULTILINE)


@value
class Credentials:
    """All that one peer may prove itself with; what is empty it does not have."""

    public: str = ""
    secret: str = ""
    server: str = ""
    certificate: str = ""
    key: str = ""
    authority: str = ""
    token: str = ""
    seed: str = ""

    def __repr__(self) -> str:
        """Say what there is, and none of it."""
        there = [name for name in _PLACES if getattr(self, name)]
        return f"Credentials({', '.join(there)})"

    @property
    def has_curve(self) -> bool:
        """Whether they are enough for CURVE."""
        return bool(self.public and self.secret and self.server)

    @property
    def has_tls(self) -> bool:
        """Whether they ask for TLS."""
        return bool(self.authority or self.certificate)

    def with_server(self, server: str) -> "Credentials":
        """Return the same for a broker with this public key."""
        members = {name: getattr(self, name) for name in _PLACES}
        return Credentials(**{**members, "server": server})


NONE: Final = Credentials()
#: What may be given where credentials are asked for; nothing means: see the environment.
CredentialsLike = Credentials | str | Path | None


def find_credentials(given: CredentialsLike) -> Credentials:
    """Return the credentials that are meant. Raises ValueError that names the file."""
    if isinstance(given, Credentials):
        return given
    path = given or os.environ.get(FILE_VARIABLE)
    found = read_credentials(Path(path)) if path else NONE
    server = os.environ.get(SERVER_VARIABLE, "")
    return found.with_server(server) if server and not found.server else found


def read_credentials(path: Path) -> Credentials:
    """Read a file of credentials. Raises ValueError if it is none, or others may read it."""
    text = read_private(path)
    zpl = {f"{name}": key for name, key in _ZPL.findall(text)}
    if len(zpl) == len(("public", "secret")) and text.lstrip().startswith(("#", "metadata")):
        return Credentials(**zpl)
    try:
        said = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is no file of credentials: {error}") from None
    return _from_parts(path, said)


def _from_parts(path: Path, said: dict[str, Any]) -> Credentials:
    members = {}
    for name, (part, key) in _PLACES.items():
        within = said.get(part, {})
        if isinstance(within, dict) and isinstance(within.get(key, ""), str):
            members[name] = within.get(key, "").strip()
    found = Credentials(**members)
    if found == NONE:
        raise ValueError(f"{path} has none of the parts {sorted({p for p, _ in _PLACES.values()})}")
    return found


def write_credentials(path: Path, credentials: Credentials) -> None:
    """Write a file of credentials that only its owner can read; an old one is replaced."""
    parts: dict[str, list[str]] = {}
    for name, (part, key) in _PLACES.items():
        said = getattr(credentials, name)
        if said:
            quoted = f"'''\n{said}\n'''" if "\n" in said else f"'{said}'"
            parts.setdefault(part, []).append(f"{key} = {quoted}")
    text = "# Credentials of one peer: whoever can read them is that peer.\n"
    text += "".join(f"[{part}]\n" + "\n".join(lines) + "\n" for part, lines in parts.items())
    scratch = path.with_name(path.name + ".part")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    scratch.rename(path)
