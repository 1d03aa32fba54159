"""CURVE (ZeroMQ RFC 26) from the listener's end: who is there has proved a key.

Four commands: HELLO shows that the peer knows our public key, WELCOME brings it our short-lived
one, INITIATE its own and the proof that it holds it, READY ends it. After that each frame is boxed
for itself. The boxes are libsodium's; here is only who boxes what for whom.

Capital letters are public keys, small ones secret: `S` is ours, `C` the peer's; those with `_now`
live as long as the connection, so that nobody who learns `s` later can read what was said.
"""

from collections.abc import Sequence
from contextlib import suppress
from hmac import compare_digest
from os import urandom
from typing import Final

from nacl.bindings import crypto_box_beforenm, crypto_box_keypair, crypto_scalarmult_base
from nacl.exceptions import CryptoError
from zmq.utils import z85

from dragoman.transports.base import Admits, Key
from dragoman.transports.curve_box import CurveBox
from dragoman.transports.zmtp_mechanism import (
    BROKEN_OFF,
    NO_CURVE,
    ConnectionRejected,
    Seal,
    Unseal,
)
from dragoman.transports.zmtp_wire import (
    COMMAND,
    MORE,
    ROUTER,
    command,
    error,
    read_command,
    read_properties,
)

_KEY: Final = 32
_COOKIE: Final = 96
_VOUCH: Final = 96
_HELLO: Final = 194
_MESSAGE: Final = b"\x07MESSAGE"
#: Bytes that a frame grows by.
OVERHEAD: Final = 33
#: How a box says what its frame is: MORE as outside, and that it is a command.
_MEANT: Final = {0: b"\0", MORE: b"\1", COMMAND: b"\2"}
_FORGED: Final = "forged or repeated frame"
#: ZAP's word for "no, and do not ask again" (ZeroMQ RFC 27).
_NOT_ADMITTED: Final = error(b"400")


class CurveKeyPair:
    """The broker's own long-lived pair, from its secret key in Z85."""

    def __init__(self, secret: bytes) -> None:
        self.secret = z85.decode(secret)
        self.public = crypto_scalarmult_base(self.secret)


class Curve:
    """One connection's handshake, and then its boxes."""

    name = b"CURVE"
    is_server = True

    def __init__(self, own: Sequence[CurveKeyPair], admits: Admits | None) -> None:
        """Prepare; whoever comes may mean any of our own keys."""
        self.key: Key = ""
        self.properties: dict[bytes, bytes] | None = None
        self.unseal: Unseal | None = None
        self.seal: Seal | None = None
        self._own = own
        self._admits = admits
        self._steps = {b"HELLO": self._hello}
        #: The numbers of the newest box heard and said: each may be used once.
        self._heard = self._said = 0

    def begin(self) -> list[bytes]:
        """Wait: the peer speaks first."""
        return []

    def receive(self, body: bytes) -> list[bytes]:
        """Take the one command whose turn it is."""
        name, data = read_command(body)
        step = self._steps.pop(name, None)
        if step is None:
            raise ConnectionRejected(BROKEN_OFF)
        try:
            return [step(data)]
        except (CryptoError, ValueError):
            # A box that does not open, a public key that is no point: all the same to us.
            raise ConnectionRejected(NO_CURVE) from None

    # --- the handshake ------------------------------------------------------------------------

    def _hello(self, data: bytes) -> bytes:
        """Version, padding, C_now, number, box of zeros from C_now to S. Answer WELCOME."""
        if len(data) != _HELLO or data[:2] != b"\x01\x00":
            raise ConnectionRejected(NO_CURVE)
        self._peer_now, number, box = data[74:106], data[106:114], data[114:]
        self._meant, shared = self._who_is_meant(box, b"CurveZMQHELLO---" + number)
        self._heard = int.from_bytes(number)
        self._now, self._now_secret = crypto_box_keypair()
        # RFC 26 lets a server that keeps nothing find its short-lived key in the cookie. There is a
        # connection to keep it in, so the cookie only has to come back.
        self._cookie, nonce = urandom(_COOKIE), urandom(16)
        boxed = shared.close(self._now + self._cookie, b"WELCOME-" + nonce)
        self._steps = {b"INITIATE": self._initiate}
        return command(b"WELCOME", nonce + boxed)

    def _who_is_meant(self, box: bytes, nonce: bytes) -> tuple[CurveKeyPair, CurveBox]:
        """Find which of our keys a HELLO is for: nothing tells but that its box opens."""
        for own in self._own:
            shared = CurveBox(crypto_box_beforenm(self._peer_now, own.secret))
            with suppress(CryptoError):
                shared.open(box, nonce)
                return own, shared
        raise ConnectionRejected(NO_CURVE)

    def _initiate(self, data: bytes) -> bytes:
        """Cookie, number, box from C_now to S_now: C, vouch, properties. Answer READY."""
        cookie, number, box = data[:_COOKIE], data[_COOKIE : _COOKIE + 8], data[_COOKIE + 8 :]
        if not compare_digest(cookie, self._cookie):
            raise ConnectionRejected(NO_CURVE)
        self._boxes = CurveBox(crypto_box_beforenm(self._peer_now, self._now_secret))
        self._require_new(number)
        plain = self._boxes.open(box, b"CurveZMQINITIATE" + number)
        public, vouch = plain[:_KEY], plain[_KEY : _KEY + _VOUCH]
        self._check_vouch(public, vouch)
        found = read_properties(plain[_KEY + _VOUCH :])
        if found is None:
            raise ConnectionRejected(BROKEN_OFF)
        self._admit(public)
        self.properties, self.unseal, self.seal = found, self._unseal, self._seal
        ready = self._boxes.close(ROUTER, b"CurveZMQREADY---" + self._next())
        return command(b"READY", self._said.to_bytes(8) + ready)

    def _check_vouch(self, public: bytes, vouch: bytes) -> None:
        """Open the box of C_now and S from C to S_now: only who holds `c` could have made it."""
        shared = CurveBox(crypto_box_beforenm(public, self._now_secret))
        plain = shared.open(vouch[16:], b"VOUCH---" + vouch[:16])
        if not compare_digest(plain, self._peer_now + self._meant.public):
            raise ConnectionRejected(NO_CURVE)

    def _admit(self, public: bytes) -> None:
        key = f"curve:{z85.encode(public).decode()}"
        if self._admits is not None and not self._admits(key):
            raise ConnectionRejected("key refused", _NOT_ADMITTED)
        self.key = key

    # --- the boxes ----------------------------------------------------------------------------

    def _unseal(self, body: bytes) -> tuple[int, bytes]:
        """Open one frame. Raises `ConnectionRejected` for what the peer cannot have said, or
        said before.
        """
        if len(body) < OVERHEAD or not body.startswith(_MESSAGE):
            raise ConnectionRejected(_FORGED)
        number = body[8:16]
        self._require_new(number)
        try:
            plain = self._boxes.open(body[16:], b"CurveZMQMESSAGEC" + number)
        except CryptoError:
            raise ConnectionRejected(_FORGED) from None
        flags = plain[0]
        return (flags & MORE) | (flags & 2) << 1, plain[1:]

    def _seal(self, flags: int, body: bytes) -> bytes:
        """Box one frame."""
        number = self._next()
        plain = _MEANT[flags] + body
        return _MESSAGE + number + self._boxes.close(plain, b"CurveZMQMESSAGES" + number)

    def _require_new(self, number: bytes) -> None:
        """See that numbers only go up, so that nothing can be played again."""
        heard = int.from_bytes(number)
        if heard <= self._heard:
            raise ConnectionRejected(_FORGED)
        self._heard = heard

    def _next(self) -> bytes:
        self._said += 1
        return self._said.to_bytes(8)
