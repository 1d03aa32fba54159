"""TLS for every transport that has it: contexts, and the key that a certificate is.

The key of a peer is the SHA-256 of its certificate. Certificates come from an authority that the
broker trusts (usually its own), and are proved in the handshake; whether such a certificate may
come in is decided by its key. At least TLS 1.2, because NNG's peers have nothing newer.
"""

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from dragoman.transports.base import Key


class ServerTls:
    """What a listener proves itself with, and whom it believes."""

    __slots__ = ("authority", "certificate", "key")

    def __init__(self, certificate: Path, key: Path, authority: Path) -> None:
        self.certificate = certificate
        self.key = key
        self.authority = authority

    def context(self, *, is_optional: bool = False) -> ssl.SSLContext:
        """Make a context that asks for a certificate; with `is_optional` none will do as well."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key)
            context.load_verify_locations(self.authority)
        except (OSError, ssl.SSLError) as error:
            names = f"{self.certificate}, {self.key}, {self.authority}"
            raise ValueError(f"no TLS with {names}: {error}") from None
        context.verify_mode = ssl.CERT_OPTIONAL if is_optional else ssl.CERT_REQUIRED
        return context


class PeerTls:
    """What a peer proves itself with and whom it believes, as PEM texts; none is an empty text."""

    __slots__ = ("authority", "certificate", "key")

    def __init__(self, authority: str = "", certificate: str = "", key: str = "") -> None:
        self.authority = authority
        self.certificate = certificate
        self.key = key

    def __repr__(self) -> str:
        """Show nothing secret."""
        return f"PeerTls({'with' if self.certificate else 'without'} a certificate)"

    def context(self) -> ssl.SSLContext:
        """Make a context that believes the authority, or else those of the system."""
        context = ssl.create_default_context(cadata=self.authority or None)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.certificate:
            with _as_file(f"{self.certificate}\n{self.key}\n") as path:
                context.load_cert_chain(path)
        return context


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """Lend a text as a file of one's own: OpenSSL reads certificates from nowhere else."""
    descriptor, path = tempfile.mkstemp()
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        yield path
    finally:
        os.unlink(path)


def key_of_certificate(der: bytes | None) -> Key:
    """Return the key that a certificate is; empty for none."""
    return f"tls:{sha256(der).hexdigest()}" if der else ""


def proved(transport: Any) -> Key:
    """Return the key that the other end of an asyncio transport has proved."""
    tls = transport.get_extra_info("ssl_object")
    return "" if tls is None else key_of_certificate(tls.getpeercert(binary_form=True))
