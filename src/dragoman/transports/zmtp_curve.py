"""CURVE (ZeroMQ RFC 26), the server's end: a peer proves its key in the handshake.

Four commands: HELLO shows that the peer knows our public key. WELCOME carries our short-term key.
INITIATE carries the peer's key and the proof that it holds it. READY ends the handshake. After that
each frame is encrypted on its own. libsodium does the cryptography; this module has the protocol.

As in the RFC, capital letters are public keys and small letters secret ones: `S` is the server's,
`C` the client's. Short-term keys live as long as the connection (forward secrecy).
"""

from collections.abc import Sequence
from contextlib import suppress
from hmac import compare_digest
from os import urandom
from typing import Final

from nacl.bindings import crypto_box_beforenm, crypto_box_keypair, crypto_scalarmult_base
from nacl.exceptions import CryptoError
from zmq.utils import z85

from dragoman.transports.base import Admits, Key, Refused
from dragoman.transports.curve_box import CurveBox, PublicCurveBox
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
    RETRIES,
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
#: The content of the box in HELLO.
_ZEROS: Final = bytes(64)
MESSAGE: Final = b"\x07MESSAGE"
#: Bytes that encryption adds to a frame.
OVERHEAD: Final = 33
#: The flags byte inside a MESSAGE, by the flags of the frame.
FLAGS_BYTE: Final = {0: b"\0", MORE: b"\1", COMMAND: b"\2"}
_FORGED: Final = "forged or repeated frame"
#: ZAP's status for a permanent refusal (ZeroMQ RFC 27).
_NOT_ADMITTED: Final = error(b"400")


class CurveKeyPair:
    """The broker's permanent key pair, from its secret key in Z85."""

    def __init__(self, secret: bytes) -> None:
        self.secret = z85.decode(secret)
        self.public = crypto_scalarmult_base(self.secret)


class Curve:
    """One connection's handshake, then the encryption of its frames."""

    name = b"CURVE"
    is_server = True

    def __init__(
        self,
        own: Sequence[CurveKeyPair],
        admits: Admits | None,
        refused: Refused | None = None,
    ) -> None:
        """Create a mechanism; the peer may use any of our own keys."""
        self.key: Key = ""
        self.properties: dict[bytes, bytes] | None = None
        self.unseal: Unseal | None = None
        self.seal: Seal | None = None
        #: Where the peer connects from; set by the connection.
        self.address = ""
        self._own = own
        self._admits, self._refused = admits, refused
        self._steps = {b"HELLO": self._hello}
        #: The last nonce received and the last one sent: each nonce is used once.
        self._last_received = self._last_sent = 0

    def begin(self) -> list[bytes]:
        """Return nothing: the client sends the first command."""
        return []

    def receive(self, body: bytes) -> list[bytes]:
        """Handle the one command that is expected now."""
        name, data = read_command(body)
        step = self._steps.pop(name, None)
        if step is None:
            raise ConnectionRejected(BROKEN_OFF)
        try:
            return [step(data)]
        except (CryptoError, ValueError):
            # A box that does not open, or a public key that is no point on the curve.
            raise ConnectionRejected(NO_CURVE) from None

    # --- the handshake ------------------------------------------------------------------------

    def _hello(self, data: bytes) -> bytes:
        """Version, padding, C', nonce, box of zeros from C' to S. Answer WELCOME."""
        if len(data) != _HELLO or data[:2] != b"\x01\x00" or any(data[2:74]):
            raise ConnectionRejected(NO_CURVE)
        self._peer_short_term, number, box = data[74:106], data[106:114], data[114:]
        self._own_pair, shared = self._find_own_pair(box, b"CurveZMQHELLO---" + number)
        self._last_received = int.from_bytes(number)
        self._short_term, self._short_term_secret = crypto_box_keypair()
        # RFC 26 lets a stateless server recover its short-term key from the cookie. The connection
        # keeps that key here, so the cookie is random and only has to come back.
        self._cookie, nonce = urandom(_COOKIE), urandom(16)
        boxed = shared.close(self._short_term + self._cookie, b"WELCOME-" + nonce)
        self._steps = {b"INITIATE": self._initiate}
        return command(b"WELCOME", nonce + boxed)

    def _find_own_pair(self, box: bytes, nonce: bytes) -> tuple[CurveKeyPair, PublicCurveBox]:
        """Find which of our key pairs a HELLO is for: the one that opens its box."""
        for own in self._own:
            shared = CurveBox(crypto_box_beforenm(self._peer_short_term, own.secret))
            with suppress(CryptoError):
                if shared.open(box, nonce) == _ZEROS:
                    return own, shared
        raise ConnectionRejected(NO_CURVE)

    def _initiate(self, data: bytes) -> bytes:
        """Cookie, nonce, box from C' to S' with C, vouch, properties. Answer READY."""
        cookie, number, box = data[:_COOKIE], data[_COOKIE : _COOKIE + 8], data[_COOKIE + 8 :]
        if not compare_digest(cookie, self._cookie):
            raise ConnectionRejected(NO_CURVE)
        self._boxes = CurveBox(crypto_box_beforenm(self._peer_short_term, self._short_term_secret))
        self._check_nonce(number)
        plain = self._boxes.open(box, b"CurveZMQINITIATE" + number)
        public, vouch = plain[:_KEY], plain[_KEY : _KEY + _VOUCH]
        self._check_vouch(public, vouch)
        found = read_properties(plain[_KEY + _VOUCH :])
        if found is None:
            raise ConnectionRejected(BROKEN_OFF)
        self._admit(public, found)
        self.properties, self.unseal, self.seal = found, self._unseal, self._seal
        ready = self._boxes.close(ROUTER, b"CurveZMQREADY---" + self._next())
        return command(b"READY", self._last_sent.to_bytes(8) + ready)

    def _check_vouch(self, public: bytes, vouch: bytes) -> None:
        """Open the box of C' and S from C to S': only the holder of `c` can make it."""
        shared = CurveBox(crypto_box_beforenm(public, self._short_term_secret))
        plain = shared.open(vouch[16:], b"VOUCH---" + vouch[:16])
        if not compare_digest(plain, self._peer_short_term + self._own_pair.public):
            raise ConnectionRejected(NO_CURVE)

    def _admit(self, public: bytes, properties: dict[bytes, bytes]) -> None:
        key = f"curve:{z85.encode(public).decode()}"
        if self._admits is not None and not self._admits(key):
            source = self._source(properties.get(b"identity", b""))
            is_pending = self._refused is not None and self._refused(key, source)
            can_wait = is_pending and RETRIES not in properties
            raise ConnectionRejected("key refused", _NOT_ADMITTED, key if can_wait else "")
        self.key = key

    def _source(self, identity: bytes) -> str:
        """Return the name and address that the peer shows."""
        text = identity.decode(errors="replace")
        name = "".join(c if c.isprintable() else "?" for c in text)
        return f"{name or 'unnamed'} from {self.address or 'this machine'}"

    # --- encrypted frames ---------------------------------------------------------------------

    def _unseal(self, body: bytes) -> tuple[int, bytes]:
        """Decrypt one frame. Raises `ConnectionRejected` if it is forged or repeated."""
        if len(body) < OVERHEAD or not body.startswith(MESSAGE):
            raise ConnectionRejected(_FORGED)
        number = body[8:16]
        self._check_nonce(number)
        try:
            plain = self._boxes.open(body[16:], b"CurveZMQMESSAGEC" + number)
        except CryptoError:
            raise ConnectionRejected(_FORGED) from None
        flags = plain[0]
        return (flags & MORE) | (flags & 2) << 1, plain[1:]

    def _seal(self, flags: int, body: bytes) -> bytes:
        """Encrypt one frame."""
        number = self._next()
        plain = FLAGS_BYTE[flags] + body
        return MESSAGE + number + self._boxes.close(plain, b"CurveZMQMESSAGES" + number)

    def _check_nonce(self, number: bytes) -> None:
        """Require that nonces increase, so that no frame can be replayed."""
        nonce = int.from_bytes(number)
        if nonce <= self._last_received:
            raise ConnectionRejected(_FORGED)
        self._last_received = nonce

    def _next(self) -> bytes:
        self._last_sent += 1
        return self._last_sent.to_bytes(8)
