"""Recognises a protocol by its first bytes, to name it if a peer uses the wrong port."""

import re
from typing import Final

ZEROMQ: Final = "ZeroMQ"
NNG: Final = "NNG"
NATS: Final = "NATS"
HTTP: Final = "HTTP"
TLS: Final = "TLS"

_FIRST: Final = (
    (re.compile(rb"\xff.{8}[\x7f\x01]|\xff[\0\xff]", re.DOTALL), ZEROMQ),
    (re.compile(rb"\0SP\0"), NNG),
    (re.compile(rb"INFO |CONNECT \{|PING\r\n|-ERR"), NATS),
    (re.compile(rb"HTTP/1|(GET|POST|PUT|HEAD|DELETE|OPTIONS|PATCH) /"), HTTP),
    (re.compile(rb"[\x15\x16]\x03[\0-\x04]"), TLS),
)


def recognise(data: bytes) -> str:
    """Return the protocol that begins with these bytes; empty if it is unknown."""
    return next((name for first, name in _FIRST if first.match(data)), "")


def wrong_protocol(reason: str, data: bytes) -> str:
    """Add the protocol that a peer spoke to the reason of its rejection, if it is recognised."""
    name = recognise(data)
    return f"{reason}, but {name}" if name else reason
