"""Explains a failed TLS handshake: which names the broker's certificate has.

The error of a failed check does not hold the certificate. So a second connection reads it: the
authority is checked there, the name is not, and nothing is sent over it.
"""

import ssl
from socket import create_connection, socket
from typing import Any, Final

from dragoman.transports.tls import PeerTls

#: OpenSSL's codes for a certificate that names another host or another address.
_OTHER_NAME: Final = (62, 64)
_KINDS: Final = ("DNS", "IP Address")
_WITHIN: Final = 3.0
#: Most names that a message lists.
_MOST: Final = 12
#: NATS sends one line before its handshake; it has no more than a few kilobytes.
_LONGEST_LINE: Final = 65_536


class HandshakeFailed(ssl.SSLError):
    """A failed handshake whose text is a sentence for the user."""


def explain(error: Exception, tls: PeerTls, host: str, port: int, *, is_nats: bool = False) -> str:
    """Return why a handshake failed. Connects once more if the certificate has another name."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return f"no TLS with the broker: {getattr(error, 'reason', '') or error}"
    if error.verify_code not in _OTHER_NAME:
        said = error.verify_message or "not valid"
        return f"no TLS with the broker: its certificate is refused here: {said}"
    names = ", ".join(names_at(tls, host, port, is_nats=is_nats)) or "other names"
    return (
        f"the certificate of {host}:{port} is for {names}, not for {host};"
        " use one of these names in the URL, or give the broker a certificate with this name"
        " (`dragoman init --name`)"
    )


def names_at(tls: PeerTls, host: str, port: int, *, is_nats: bool = False) -> list[str]:
    """Return the names in a server's certificate; none if it cannot be read."""
    context = tls.context()
    context.check_hostname = False
    try:
        with create_connection((host, port), _WITHIN) as plain:
            if is_nats:
                _skip_line(plain)
            with context.wrap_socket(plain, server_hostname=host) as connection:
                return _names(connection.getpeercert() or {})
    except OSError:
        return []


def _skip_line(connection: socket) -> None:
    """Read the line byte by byte: what follows it belongs to the handshake."""
    for _ in range(_LONGEST_LINE):
        if connection.recv(1) in (b"\n", b""):
            return


def _names(certificate: Any) -> list[str]:
    found = [text for kind, text in certificate.get("subjectAltName", ()) if kind in _KINDS]
    return [*found[:_MOST], *(["..."] if len(found) > _MOST else [])]
