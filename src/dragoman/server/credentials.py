"""The credentials of the broker's listeners, and the check of listeners without any.

Without credentials a listener is *plain*: everybody who reaches it may connect, and everybody on
the way can read the traffic. A plain listener is for the loopback; elsewhere it needs `--insecure`.
"""

import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import structlog

from dragoman.dialects.descriptor import Carrier
from dragoman.dialects.listeners import ALL_LISTENERS, LISTENERS
from dragoman.dialects.mesh.settings import LISTENER as MESH
from dragoman.dialects.registry import DIALECTS
from dragoman.server.settings import BrokerSettings
from dragoman.transports.base import is_loopback
from dragoman.transports.keyfiles import read_private
from dragoman.transports.nkeys import Nkey
from dragoman.transports.nkeys import read_secret as read_nats_secret
from dragoman.transports.tls import ServerTls

log = structlog.get_logger("dragoman.security")

#: Listeners that CURVE secures; TLS secures the others.
_BY_CURVE: Final = frozenset(
    (
        *(n.name for n in LISTENERS if DIALECTS[n.dialect].carrier is Carrier.ZEROMQ),
        MESH.name,
    )
)
_SECRET: Final = re.compile(r"""^\s*secret(?:-key)?\s*=\s*["']([^"']{40})["']""", re.MULTILINE)
_SECRET_LENGTH: Final = 40
_HOW: Final = {
    True: "give the broker a CURVE key ([credentials] curve)",
    False: "give it a certificate ([credentials] certificate, key, authority)",
}


class ListenerCredentials:
    """The broker's credentials, read from their files."""

    def __init__(self, settings: BrokerSettings) -> None:
        section = settings.credentials
        self._plain = frozenset(section.plain)
        self._curve = [read_secret(path) for path in section.curve]
        self._tls = certificate_of(settings)
        #: The broker's credentials for an external NATS server: a key, and a JWT if it has one.
        self.nats: tuple[Nkey | None, str] = (None, "")
        if section.nats is not None:
            self.nats = read_nats(section.nats)

    def curve(self, listener: str) -> list[bytes]:
        """Return the secret keys of a ZeroMQ listener; an empty list: it is plain."""
        return [] if listener in self._plain else self._curve

    def tls(self, listener: str) -> ServerTls | None:
        """Return the TLS files of a listener; None: it is plain."""
        return None if listener in self._plain else self._tls

    def is_plain(self, listener: str) -> bool:
        """Tell whether a listener has no security."""
        if listener in _BY_CURVE:
            return not self.curve(listener)
        return self.tls(listener) is None


def certificate_of(settings: BrokerSettings) -> ServerTls | None:
    """Return the files of the broker's certificate, if it has one."""
    section = settings.credentials
    if section.certificate is None or section.key is None or section.authority is None:
        return None
    return ServerTls(section.certificate, section.key, section.authority)


def read_secret(path: Path) -> bytes:
    """Read a CURVE secret key from a bare file, a `dragoman keys new` file or a pyzmq file."""
    text = read_private(path)
    found = _SECRET.search(text)
    secret = found[1] if found else text.strip()
    if len(secret) != _SECRET_LENGTH:
        raise ValueError(f"{path} has no CURVE secret key (40 characters of Z85)")
    return secret.encode()


def read_nats(path: Path) -> tuple[Nkey, str]:
    """Read a seed or a `.creds` file. Raises ValueError that names the file."""
    try:
        return read_nats_secret(path.read_text())
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def check_listeners(settings: BrokerSettings, credentials: ListenerCredentials) -> list[str]:
    """Return a warning for each plain listener that others can reach.

    Raises ValueError unless the settings allow it (`insecure`).
    """
    exposed = {
        name: endpoint
        for name in (each.name for each in ALL_LISTENERS)
        if (endpoint := getattr(settings.listen, name)) != "off"
        and credentials.is_plain(name)
        and not is_local(endpoint)
    }
    if exposed and not settings.credentials.insecure:
        name, endpoint = next(iter(exposed.items()))
        how = _HOW[name in _BY_CURVE]
        raise ValueError(
            f"{name} would listen on {endpoint} without security, for everybody who can reach it. "
            f"Listen on 127.0.0.1, or {how}; `dragoman init` makes all of them. "
            "If only you use this network, pass --insecure"
        )
    return [
        f"{name} listens on {endpoint} without security: everybody who can reach it may do anything"
        for name, endpoint in exposed.items()
    ]


def warn_of_plain_listeners(settings: BrokerSettings, credentials: ListenerCredentials) -> None:
    """Check the listeners at every start, and log the warnings."""
    for warning in check_listeners(settings, credentials):
        log.warning(warning)


def is_local(endpoints: str) -> bool:
    """Tell whether only this machine can reach these endpoints."""
    return all(_is_local(each.strip()) for each in endpoints.split(","))


def _is_local(endpoint: str) -> bool:
    scheme = endpoint.partition("://")[0]
    if not endpoint or scheme in ("ipc", "nats", "tls"):
        # No network listener: the broker's own default, a Unix socket, or an external server.
        return True
    return is_loopback(urlsplit(endpoint).hostname or "")
