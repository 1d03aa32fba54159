"""What both peers' ends of ZeroMQ share (`dealer`, and `zmq` with libzmq): keys, limits, texts."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zmq import Socket

#: Messages that ZeroMQ queues for one peer before `send` answers `Sent.FULL`.
SEND_HWM: Final = 10_000
RECV_HWM: Final = 10_000
#: Frames above this size end the connection they came on.
MAX_FRAME: Final = 64 * 1024 * 1024
#: Milliseconds that accepted messages have to be written when the socket closes.
LINGER_MS: Final = 500
#: Why a handshake failed, for the user.
UNKNOWN_KEY: Final = (
    "the broker refuses this key: it is unknown there, waits for approval, or has ended"
)
NO_CURVE: Final = "no CURVE handshake came about: that is not the broker's key, or it has none"
NO_KEYS: Final = "the handshake failed: the broker wants CURVE, and this peer was given no keys"


class CurveKeys:
    """A peer's CURVE keys: its own pair and the broker's public key, in Z85."""

    __slots__ = ("public", "secret", "server")

    def __init__(self, public: bytes, secret: bytes, server: bytes) -> None:
        self.public = public
        self.secret = secret
        self.server = server

    def __repr__(self) -> str:
        """Show the public keys only."""
        return f"CurveKeys({self.public!r}, ..., {self.server!r})"

    def prepare(self, socket: "Socket[bytes]") -> None:
        """Set the keys on a socket of libzmq; call it before the socket connects."""
        import zmq

        socket.setsockopt(zmq.CURVE_PUBLICKEY, self.public)
        socket.setsockopt(zmq.CURVE_SECRETKEY, self.secret)
        socket.setsockopt(zmq.CURVE_SERVERKEY, self.server)
        # We retry after an ERROR, so the broker can send it at once and hold no connection.
        socket.setsockopt(zmq.METADATA, b"X-Retries:1")
