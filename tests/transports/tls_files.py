"""A broker's certificate in files, and the authority that signs it and its peers'."""

from pathlib import Path

from dragoman.sdk.issuing import new_authority, new_certificate
from dragoman.transports.tls import ServerTls

AUTHORITY = new_authority("test authority")
OURS = new_certificate(AUTHORITY, "broker", ("localhost", "127.0.0.1"))


def write_tls(folder: Path) -> ServerTls:
    """Write the files of a listener."""
    for name, text in (
        ("certificate", OURS.certificate),
        ("tls.key", OURS.secret),
        ("authority", AUTHORITY.certificate),
    ):
        (folder / name).write_text(text)
    return ServerTls(folder / "certificate", folder / "tls.key", folder / "authority")
