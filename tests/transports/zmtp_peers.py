"""Peers of a ROUTER that speak ZMTP in bytes, CURVE included, written from RFC 23 and RFC 26."""

from nacl.bindings import (
    crypto_box_beforenm,
    crypto_box_easy_afternm,
    crypto_box_keypair,
    crypto_box_open_easy_afternm,
)

GREETING_NULL = b"\xff" + bytes(7) + b"\x01\x7f\x03\x01NULL" + bytes(48)
GREETING_CURVE = b"\xff" + bytes(7) + b"\x01\x7f\x03\x01CURVE" + bytes(47)


def frame(body: bytes, flags: int = 0) -> bytes:
    if len(body) < 256:
        return bytes([flags, len(body)]) + body
    return bytes([flags | 2]) + len(body).to_bytes(8) + body


def message(*bodies: bytes) -> bytes:
    return b"".join(frame(b, 1) for b in bodies[:-1]) + frame(bodies[-1])


def property_(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + len(value).to_bytes(4) + value


def introduction(name: bytes, socket: bytes = b"DEALER") -> bytes:
    return property_(b"Socket-Type", socket) + property_(b"Identity", name)


def ready(name: bytes, socket: bytes = b"DEALER") -> bytes:
    return frame(b"\x05READY" + introduction(name, socket), 4)


class CurvePeer:
    """The client's end of CURVE. Tests may corrupt its state between two steps."""

    def __init__(self, server: bytes) -> None:
        self.server = server
        self.public, self.secret = crypto_box_keypair()
        self.now, self.now_secret = crypto_box_keypair()
        self.number = 0

    def _next(self) -> bytes:
        self.number += 1
        return self.number.to_bytes(8)

    def hello(self, zeros: bytes = bytes(64)) -> bytes:
        number = self._next()
        shared = crypto_box_beforenm(self.server, self.now_secret)
        box = crypto_box_easy_afternm(zeros, b"CurveZMQHELLO---" + number, shared)
        return b"\x05HELLO\x01\x00" + bytes(72) + self.now + number + box

    def welcome(self, body: bytes) -> None:
        assert body.startswith(b"\x07WELCOME")
        shared = crypto_box_beforenm(self.server, self.now_secret)
        plain = crypto_box_open_easy_afternm(body[24:], b"WELCOME-" + body[8:24], shared)
        self.their_now, self.cookie = plain[:32], plain[32:]
        assert len(self.cookie) == 96

    def vouch(self) -> bytes:
        shared = crypto_box_beforenm(self.their_now, self.secret)
        nonce = bytes(range(16))
        return nonce + crypto_box_easy_afternm(self.now + self.server, b"VOUCH---" + nonce, shared)

    def initiate(self, name: bytes, vouch: bytes = b"", metadata: bytes | None = None) -> bytes:
        number = self._next()
        self.shared = crypto_box_beforenm(self.their_now, self.now_secret)
        said = introduction(name) if metadata is None else metadata
        box = crypto_box_easy_afternm(
            self.public + (vouch or self.vouch()) + said, b"CurveZMQINITIATE" + number, self.shared
        )
        return b"\x08INITIATE" + self.cookie + number + box

    def ready(self, body: bytes) -> bytes:
        """Return the router's properties."""
        assert body.startswith(b"\x05READY")
        nonce = b"CurveZMQREADY---" + body[6:14]
        return crypto_box_open_easy_afternm(body[14:], nonce, self.shared)

    def seal(self, body: bytes, flags: int = 0) -> bytes:
        number = self._next()
        box = crypto_box_easy_afternm(
            bytes([flags]) + body, b"CurveZMQMESSAGEC" + number, self.shared
        )
        return b"\x07MESSAGE" + number + box

    def unseal(self, body: bytes) -> tuple[int, bytes]:
        assert body.startswith(b"\x07MESSAGE")
        nonce = b"CurveZMQMESSAGES" + body[8:16]
        plain = crypto_box_open_easy_afternm(body[16:], nonce, self.shared)
        return plain[0], plain[1:]
