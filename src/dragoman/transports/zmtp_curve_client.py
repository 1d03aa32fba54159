"""CURVE (ZeroMQ RFC 26), the client's end: prove our key to a broker whose key we know.

The letters are those of `zmtp_curve`, which has the server's end: `C` is ours, `S` the broker's;
short-term keys, with a prime in the RFC, live as long as the connection.
"""

from os import urandom
from typing import Final

from nacl.bindings import crypto_box_beforenm, crypto_box_keypair
from nacl.exceptions import CryptoError
from zmq.utils import z85

from dragoman.transports.curve_box import CurveBox
from dragoman.transports.zmtp_curve import FLAGS_BYTE, MESSAGE, OVERHEAD
from dragoman.transports.zmtp_mechanism import BROKEN_OFF, ConnectionRejected, Seal, Unseal
from dragoman.transports.zmtp_wire import MORE, command, read_command, read_properties

_VERSION_AND_PADDING: Final = b"\x01\x00" + bytes(72)
_WELCOME: Final = 160
#: The broker answered something that its key cannot have made.
WRONG_KEY: Final = "another broker's key"


class CurveClient:
    """One connection's handshake, then the encryption of its frames."""

    name = b"CURVE"

    def __init__(self, public: bytes, secret: bytes, server: bytes, properties: bytes) -> None:
        """Create a mechanism from keys in Z85 and our properties."""
        self._public, self._secret = z85.decode(public), z85.decode(secret)
        self._server = z85.decode(server)
        self._own_properties = properties
        self.properties: dict[bytes, bytes] | None = None
        self.unseal: Unseal | None = None
        self.seal: Seal | None = None
        self._short_term, self._short_term_secret = crypto_box_keypair()
        self._steps = {b"WELCOME": self._welcome}
        self._last_received = self._last_sent = 0

    def begin(self) -> list[bytes]:
        """Return HELLO: the box of zeros shows that we know the broker's key."""
        number = self._next()
        try:
            self._shared = CurveBox(crypto_box_beforenm(self._server, self._short_term_secret))
        except CryptoError:  # no broker can have this key, such as one of zeros only
            raise ConnectionRejected(WRONG_KEY) from None
        box = self._shared.close(bytes(64), b"CurveZMQHELLO---" + number)
        return [command(b"HELLO", _VERSION_AND_PADDING + self._short_term + number + box)]

    def receive(self, body: bytes) -> list[bytes]:
        """Handle the one command that is expected now."""
        name, data = read_command(body)
        step = self._steps.pop(name, None)
        if step is None:
            raise ConnectionRejected(BROKEN_OFF)
        try:
            return step(data)
        except (CryptoError, ValueError):
            raise ConnectionRejected(WRONG_KEY) from None

    def _welcome(self, data: bytes) -> list[bytes]:
        """Read S' and the cookie; answer INITIATE with our key, its proof and our properties."""
        if len(data) != _WELCOME:
            raise ConnectionRejected(BROKEN_OFF)
        plain = self._shared.open(data[16:], b"WELCOME-" + data[:16])
        theirs, cookie = plain[:32], plain[32:]
        self._boxes = CurveBox(crypto_box_beforenm(theirs, self._short_term_secret))
        nonce = urandom(16)
        proof = CurveBox(crypto_box_beforenm(theirs, self._secret))
        vouch = nonce + proof.close(self._short_term + self._server, b"VOUCH---" + nonce)
        number = self._next()
        content = self._public + vouch + self._own_properties
        box = self._boxes.close(content, b"CurveZMQINITIATE" + number)
        self._steps = {b"READY": self._ready}
        return [command(b"INITIATE", cookie + number + box)]

    def _ready(self, data: bytes) -> list[bytes]:
        self._check_nonce(data[:8])
        found = read_properties(self._boxes.open(data[8:], b"CurveZMQREADY---" + data[:8]))
        if found is None:
            raise ConnectionRejected(BROKEN_OFF)
        self.properties, self.unseal, self.seal = found, self._unseal, self._seal
        return []

    def _unseal(self, body: bytes) -> tuple[int, bytes]:
        """Decrypt one frame. Raises `ConnectionRejected` if it is forged or repeated."""
        if len(body) < OVERHEAD or not body.startswith(MESSAGE):
            raise ConnectionRejected(BROKEN_OFF)
        number = body[8:16]
        self._check_nonce(number)
        try:
            plain = self._boxes.open(body[16:], b"CurveZMQMESSAGES" + number)
        except CryptoError:
            raise ConnectionRejected(BROKEN_OFF) from None
        return (plain[0] & MORE) | (plain[0] & 2) << 1, plain[1:]

    def _seal(self, flags: int, body: bytes) -> bytes:
        """Encrypt one frame."""
        number = self._next()
        return (
            MESSAGE
            + number
            + self._boxes.close(FLAGS_BYTE[flags] + body, b"CurveZMQMESSAGEC" + number)
        )

    def _check_nonce(self, number: bytes) -> None:
        nonce = int.from_bytes(number)
        if nonce <= self._last_received:
            raise ConnectionRejected(BROKEN_OFF)
        self._last_received = nonce

    def _next(self) -> bytes:
        self._last_sent += 1
        return self._last_sent.to_bytes(8)
