"""A broker with credentials for every listener, and what its peers are given."""

from pathlib import Path
from typing import Any, Final

from dragoman.sdk.credentials import Credentials, write_credentials
from dragoman.sdk.issuing import (
    Certificate,
    new_authority,
    new_certificate,
    new_credentials,
    new_curve,
)
from dragoman.testing.harness import LocalBroker

HOSTS: Final = ("localhost", "127.0.0.1")


class SecuredSite:
    """The broker's own credentials, in files."""

    def __init__(self, folder: Path, hosts: tuple[str, ...] = HOSTS) -> None:
        self.folder = folder
        folder.mkdir()
        self.public, secret = new_curve()
        self.authority: Certificate = new_authority("test house")
        own = new_certificate(self.authority, "broker", hosts)
        self.files = {
            "curve": self._write("broker.curve", secret),
            "certificate": self._write("broker.pem", own.certificate),
            "key": self._write("broker.key", own.secret),
            "authority": self._write("authority.pem", self.authority.certificate),
        }

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text + "\n")
        path.chmod(0o600)
        return path

    def broker(self, *links: str, **more: Any) -> LocalBroker:
        """Return a broker with these credentials, to be entered."""
        said = {**self.files, "curve": [self.files["curve"]]}
        return LocalBroker(*links, credentials=said, **more)

    def peer(self, name: str, token: str = "") -> tuple[Path, Credentials, tuple[str, ...]]:
        """Make a peer's file of credentials; return it with what is in it and its keys."""
        made, keys = new_credentials(name, self.public, self.authority, token)
        path = self.folder / f"{name}.key"
        write_credentials(path, made)
        return path, made, keys
