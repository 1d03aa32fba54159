"""Names of things. All are text; the types only keep them apart for the reader and mypy."""

from typing import Final, NewType

#: One request. Chosen by the client where its protocol lets it, else by the dialect.
JobId = NewType("JobId", str)
#: Where a peer is: `<link>/<name>`. The part before the first slash names the link.
PeerId = NewType("PeerId", str)
ServiceName = NewType("ServiceName", str)
#: What a worker calls itself; unique among the live workers of the broker.
WorkerName = NewType("WorkerName", str)
#: Who is asking, as the transport proved it.
Principal = NewType("Principal", str)

ANONYMOUS: Final = Principal("anonymous")
#: The reserved service that stands for every service at once.
EVERY_SERVICE: Final = ServiceName("all")


def peer_id(link: str, name: str) -> PeerId:
    """Name a peer of `link`."""
    return PeerId(f"{link}/{name}")


def link_of(peer: PeerId) -> str:
    """Return the link a peer belongs to."""
    return peer.partition("/")[0]


def name_of(peer: PeerId) -> str:
    """Return a peer's own name, without its link."""
    return peer.partition("/")[2]


def text_of(raw: bytes) -> str:
    """Give an opaque identity a printable, reversible name: its text, or `0x` and hex.

    Identities that are not printable UTF-8 (ZeroMQ makes such ones by itself) and those that
    could be mistaken for the hex form are written in hex.
    """
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return "0x" + raw.hex()
    if not text.isprintable() or text.startswith("0x") or not text:
        return "0x" + raw.hex()
    return text


def raw_of(text: str) -> bytes:
    """Undo `text_of`."""
    return bytes.fromhex(text[2:]) if text.startswith("0x") else text.encode()
