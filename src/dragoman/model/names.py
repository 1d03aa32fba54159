"""Types of names. All are text; distinct types help the reader and mypy."""

from typing import Final, NewType

#: One request. Chosen by the client if its protocol allows, else by the dialect.
JobId = NewType("JobId", str)
#: A peer: `<link>/<name>`. The text before the first slash names the link.
PeerId = NewType("PeerId", str)
ServiceName = NewType("ServiceName", str)
#: The name a worker registers under.
WorkerName = NewType("WorkerName", str)
#: The authenticated identity of a peer.
Principal = NewType("Principal", str)

ANONYMOUS: Final = Principal("anonymous")
#: The reserved service that means every service.
EVERY_SERVICE: Final = ServiceName("all")


def peer_id(link: str, name: str) -> PeerId:
    """Return the id of a peer of `link`."""
    return PeerId(f"{link}/{name}")


def link_of(peer: PeerId) -> str:
    """Return the link a peer belongs to."""
    return peer.partition("/")[0]


def name_of(peer: PeerId) -> str:
    """Return a peer's own name, without its link."""
    return peer.partition("/")[2]


def text_of(raw: bytes) -> str:
    """Write an opaque identity as printable, reversible text: as it is, or `0x` and hex.

    Hex is used for identities that are not printable UTF-8 (ZeroMQ generates such) and for those
    that look like the hex form.
    """
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return "0x" + raw.hex()
    if not text.isprintable() or text.startswith("0x") or not text:
        return "0x" + raw.hex()
    return text


def raw_of(text: str) -> bytes:
    """Return the identity that `text_of` wrote."""
    return bytes.fromhex(text[2:]) if text.startswith("0x") else text.encode()
