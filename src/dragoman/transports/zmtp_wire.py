"""The encoding of ZMTP (ZeroMQ RFC 23 and 37): greeting, commands, properties, frames. Stateless.

Both ends of a connection greet, agree on a mechanism (`zmtp_mechanism`), exchange properties and
then messages of one or more frames. ZMTP 2 (libzmq 3) has a shorter greeting and no commands; its
frames are the same. The order of messages must not live here.
"""

from collections.abc import Sequence
from typing import Final

MORE: Final = 0x01
LONG: Final = 0x02
COMMAND: Final = 0x04

#: The signature distinguishes ZMTP 2 and 3 from ZMTP 1; the eight bytes between are padding.
SIGNATURE: Final = b"\xff" + bytes(8) + b"\x7f"
#: Our greeting up to the major version: the rest depends on the peer's version.
OPENING: Final = SIGNATURE + b"\x03"
GREETING: Final = 64
_MINOR: Final = b"\x01"
_MECHANISM: Final = slice(12, 32)
#: Socket types that may connect to a ROUTER.
PARTNERS: Final = frozenset({b"DEALER", b"REQ", b"ROUTER"})
#: The same in ZMTP 2, where socket types are numbers.
PARTNERS_2: Final = frozenset({3, 5, 6})
#: The rest of our greeting in ZMTP 2: a ROUTER without an identity.
ROUTER_2: Final = b"\x06\x00\x00"

SHORT: Final = 255
#: Headers of short frames by length: frames with MORE, and last frames.
_HEAD: Final = [bytes((MORE, size)) for size in range(SHORT + 1)]
_LAST: Final = [bytes((0, size)) for size in range(SHORT + 1)]


def rest_of_greeting(mechanism: bytes, is_server: bool) -> bytes:
    """Return the rest of a ZMTP 3 greeting: minor version, mechanism, role."""
    return _MINOR + mechanism.ljust(20, b"\0") + bytes([is_server]) + bytes(31)


def mechanism_of(greeting: bytes) -> bytes:
    """Return the mechanism that a greeting names."""
    return greeting[_MECHANISM].rstrip(b"\0")


def command(name: bytes, data: bytes = b"") -> bytes:
    """Encode the body of a command."""
    return bytes([len(name)]) + name + data


def read_command(body: bytes) -> tuple[bytes, bytes]:
    """Return name and data of a command; the name is cut if the body is too short."""
    size = body[0] if body else 0
    return body[1 : 1 + size], body[1 + size :]


def error(reason: bytes) -> bytes:
    """Encode an ERROR command."""
    return command(b"ERROR", bytes([len(reason)]) + reason)


def properties(**pairs: bytes) -> bytes:
    """Encode properties; an underscore in a name stands for a hyphen."""
    written = []
    for word, value in pairs.items():
        name = word.replace("_", "-").encode()
        written.append(bytes([len(name)]) + name + len(value).to_bytes(4) + value)
    return b"".join(written)


#: The property of a peer that connects again after an ERROR. libzmq does not.
RETRIES: Final = b"x-retries"
#: The properties of our ROUTER.
ROUTER: Final = properties(Socket_Type=b"ROUTER", Identity=b"")


def read_properties(data: bytes) -> dict[bytes, bytes] | None:
    """Return properties by name in lower case; None if they are malformed."""
    found, at = {}, 0
    while at < len(data):
        start = at + 1 + data[at]
        end = start + 4 + int.from_bytes(data[start : start + 4])
        if start + 4 > len(data) or end > len(data):
            return None
        found[data[at + 1 : start].lower()] = data[start + 4 : end]
        at = end
    return found


def frame(flags: int, body: bytes) -> bytes:
    """Encode one frame."""
    size = len(body)
    if size <= SHORT:
        return bytes((flags, size)) + body
    return bytes((flags | LONG,)) + size.to_bytes(8) + body


def head(size: int) -> bytes:
    """Encode the header of a frame with MORE."""
    return _HEAD[size] if size <= SHORT else b"\x03" + size.to_bytes(8)


def last_head(size: int) -> bytes:
    """Encode the header of the last frame of a message."""
    return _LAST[size] if size <= SHORT else b"\x02" + size.to_bytes(8)


def add_message(out: list[bytes], frames: Sequence[bytes]) -> int:
    """Append the frames of a message, each after its header; return the bytes of the frames."""
    heads, short, total, size = _HEAD, SHORT, 0, 0
    for body in frames:
        size = len(body)
        total += size
        # Most frames are short, and a message has eight: no call for each of them.
        out.append(heads[size] if size <= short else head(size))
        out.append(body)
    out[-2] = last_head(size)
    return total
