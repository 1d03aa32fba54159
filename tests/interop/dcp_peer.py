"""An independent DCP peer, written from the protocol's text on plain pyzmq.

It shares no code with what it tests. As a process it is a worker that behaves as DagBox's own do:
one request at a time, a ping when it has heard nothing for its time-out, silence while it computes,
and an abort at the first message it cannot read (a type frame of another width, say):

    python -m tests.interop.dcp_peer ENDPOINT SERVICE [--width 4] [--timeout 0.5]

The data of a request says what to do: `slow SECONDS` computes, `noted SECONDS FILE` does so too and
adds a line to the file first, `pass SERVICE` passes the work on, `die` ends the process at once,
anything else comes back.
"""

import argparse
import os
import time
from types import TracebackType
from typing import Final, NamedTuple, Self

import zmq

SOON_MS: Final = 15_000
REGISTRATION, PING, PONG, REQUEST, REPLY, RECONNECT = range(1, 7)


class Got(NamedTuple):
    """A message: its type and all frames after the header."""

    kind: int
    frames: list[bytes]


class Peer:
    """A DEALER that speaks DCP in one width."""

    def __init__(self, endpoint: str, identity: bytes = b"", width: int = 1) -> None:
        self.width = width
        self._context = zmq.Context()
        self.socket = self._context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        if identity:
            self.socket.setsockopt(zmq.IDENTITY, identity)
        self.socket.connect(endpoint)

    def say(self, kind: int, *frames: bytes) -> None:
        """Send a message."""
        code = kind.to_bytes(self.width, "little")
        self.socket.send_multipart([b"", b"DGBX\x01", code, *frames])

    def hear(self, at_most_ms: int = SOON_MS) -> Got:
        """Wait for a message, and insist on our own width."""
        assert self.socket.poll(at_most_ms), "nothing came"
        empty, protocol, code, *frames = self.socket.recv_multipart()
        assert (empty, protocol, len(code)) == (b"", b"DGBX\x01", self.width), "cannot read it"
        return Got(int.from_bytes(code, "little"), frames)

    def hears_nothing(self, for_ms: int = 300) -> bool:
        """Whether nothing comes for a while."""
        return not self.socket.poll(for_ms)

    # --- as a client

    def ask(self, service: bytes, metadata: bytes, *data: bytes) -> None:
        """Request, without a client part."""
        self.say(REQUEST, service, b"", metadata, b"", *data)

    def answer(self) -> tuple[bytes, list[bytes]]:
        """Wait for a reply: its metadata and data; the client part is skipped."""
        kind, (_, delimiter, metadata, end, *data) = self.hear()
        assert (kind, delimiter, end) == (REPLY, b"", b"")
        return metadata, data

    # --- as a worker

    def register(self, service: bytes) -> None:
        """Register, and wait for the confirmation: the same message."""
        self.say(REGISTRATION, service)
        assert self.hear() == (REGISTRATION, [service])

    def next_request(self) -> list[bytes]:
        """Wait for a request: service, client, empty, metadata..., empty, data..."""
        kind, frames = self.hear()
        assert kind == REQUEST, kind
        return frames

    def reply(self, request: list[bytes], *data: bytes) -> None:
        """Answer a request: client and metadata as they came."""
        end = request.index(b"", 3)
        self.say(REPLY, *request[1 : end + 1], *data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.socket.close()
        self._context.term()


def serve(peer: Peer, service: bytes, timeout: float) -> None:
    """Work for ever, as DagBox's workers do."""
    peer.say(REGISTRATION, service)
    while True:
        if not peer.socket.poll(int(timeout * 1000)):
            peer.say(PING)
            continue
        kind, frames = peer.hear()
        if kind == REQUEST:
            work(peer, frames)
        elif kind == RECONNECT:
            peer.say(REGISTRATION, service)
        elif kind == PING:
            peer.say(PONG)


def work(peer: Peer, request: list[bytes]) -> None:
    """Do what the first data part of a request says."""
    end = request.index(b"", 3)
    data = request[end + 1 :]
    verb, _, argument = (data[0] if data else b"").partition(b" ")
    if verb == b"die":
        os._exit(1)
    if verb == b"pass":
        peer.say(REQUEST, argument, *request[1 : end + 1], b"passed on", *data[1:])
        return
    if verb == b"noted":
        argument, _, path = argument.partition(b" ")
        with open(path, "a") as file:
            file.write(f"{os.getpid()}\n")
    if verb in (b"slow", b"noted"):
        time.sleep(float(argument))
    peer.reply(request, *data)


def main() -> None:
    """Run a worker."""
    parser = argparse.ArgumentParser()
    parser.add_argument("endpoint")
    parser.add_argument("service")
    parser.add_argument("--width", type=int, default=4)
    parser.add_argument("--timeout", type=float, default=0.5)
    told = parser.parse_args()
    with Peer(told.endpoint, width=told.width) as peer:
        serve(peer, told.service.encode(), told.timeout)


if __name__ == "__main__":
    main()
