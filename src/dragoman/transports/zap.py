"""ZAP, the questions that ZeroMQ asks about handshakes (ZeroMQ RFC 27), answered in our loop.

libzmq finishes a CURVE handshake only after somebody behind a fixed name of its context has
agreed. The cryptography is libzmq's and happens in its own thread; here a key is only looked up. A
few questions are answered in one turn of the loop and then the others have theirs: a flood of
handshakes waits for itself.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import zmq
from zmq.utils import z85

from dragoman.transports.base import Admits, Key

_NAME: Final = "inproc://zeromq.zap.01"
_DONT_WAIT: Final = int(zmq.NOBLOCK)
#: Answers in one turn of the loop: together they take less than one request of a client.
_AT_A_TIME: Final = 4
#: A question: who waits, nothing, version, request, domain, address, identity, mechanism, key.
_FRAMES: Final = 9
_ADDRESS: Final = 5
#: Somebody who came back within the moment in which its old connection ends has to wait for that.
GRACE: Final = 0.05


class Zap:
    """Says who may come in, for every CURVE socket of one context."""

    def __init__(
        self,
        admits: Admits | None,
        trouble: "Counter[str]",
        is_here: Callable[[Key], bool],
        refused: Callable[[str], None] = lambda address: None,
    ) -> None:
        """Prepare.

        Args:
            admits: asked with every key; without it every key may come in.
            trouble: where refusals are counted, by reason.
            is_here: tells whether a key has a connection already.
            refused: told the address of everybody who is refused.

        """
        self._admits = admits
        self._trouble = trouble
        self._is_here = is_here
        self._refused = refused
        self._socket: zmq.Socket[bytes] | None = None

    def open(self, context: "zmq.Context[zmq.Socket[bytes]]") -> None:
        """Begin to answer; must happen before a socket of the context listens."""
        self._socket = socket = context.socket(zmq.ROUTER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.bind(_NAME)
        asyncio.get_running_loop().add_reader(socket.fileno(), self._serve)
        self._serve()

    def close(self) -> None:
        """Answer nobody any more."""
        socket, self._socket = self._socket, None
        if socket is not None:
            asyncio.get_running_loop().remove_reader(socket.fileno())
            socket.close()

    def _serve(self) -> None:
        socket = self._socket
        if socket is None:
            return
        for _ in range(_AT_A_TIME):
            try:
                frames = socket.recv_multipart(_DONT_WAIT)
            except zmq.Again:
                return
            self._consider(frames)
        asyncio.get_running_loop().call_soon(self._serve)

    def _consider(self, frames: list[bytes]) -> None:
        if len(frames) != _FRAMES or frames[7] != b"CURVE":
            self._refuse(frames, "no key")
            return
        key = f"curve:{z85.encode(frames[8]).decode()}"
        if self._admits is not None and not self._admits(key):
            self._refuse(frames, "key refused")
        elif self._is_here(key):
            asyncio.get_running_loop().call_later(GRACE, self._welcome, frames, key)
        else:
            self._welcome(frames, key)

    def _welcome(self, frames: list[bytes], key: Key) -> None:
        self._answer(frames, b"200", b"OK", key.partition(":")[2].encode())

    def _refuse(self, frames: list[bytes], why: str) -> None:
        """Say no for good: a peer is told so, where a passing trouble would be silence."""
        self._trouble[why] += 1
        self._answer(frames, b"400", why.encode(), b"")
        if len(frames) > _ADDRESS:
            self._refused(frames[_ADDRESS].decode("latin-1"))

    def _answer(self, frames: list[bytes], status: bytes, words: bytes, user: bytes) -> None:
        if self._socket is None:
            return
        said: list[Any] = [frames[0], b"", b"1.0", frames[3], status, words, user, b""]
        self._socket.send_multipart(said, _DONT_WAIT)
