"""MDP peers on plain pyzmq, written from the texts 7/MDP, 18/MDP, 8/MMI and 9/TSP alone.

They share no code with the broker's dialect. As a program, a worker that echoes:
`python -m tests.interop.raw_mdp 1 tcp://127.0.0.1:5550 SERVICE NAME`.
"""

import sys
import time
from typing import Final

import zmq

BEAT: Final = 0.5
#: Silent intervals after which a worker gives the broker up.
LIVENESS: Final = 8


class ReqClient:
    """A client of 0.1 on a REQ socket, which adds and removes the empty frame itself."""

    def __init__(self, endpoint: str) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self._context.socket(zmq.REQ)
        self.socket.setsockopt(zmq.RCVTIMEO, 20_000)
        self.socket.connect(endpoint)

    def call(self, service: bytes, *body: bytes) -> list[bytes]:
        self.socket.send_multipart([b"MDPC01", service, *body])
        header, name, *reply = self.socket.recv_multipart()
        assert (header, name) == (b"MDPC01", service)
        return reply

    def close(self) -> None:
        self._context.destroy(linger=0)


class DealerClient:
    """A client on a DEALER socket, of 0.1 or 0.2."""

    def __init__(self, endpoint: str, version: int) -> None:
        self.version = version
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self._context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.RCVTIMEO, 20_000)
        self.socket.connect(endpoint)

    def send(self, service: bytes, *body: bytes) -> None:
        head = [b"", b"MDPC01"] if self.version == 1 else [b"MDPC02", b"\x01"]
        self.socket.send_multipart([*head, service, *body])

    def receive(self) -> tuple[bool, list[bytes]]:
        """Return whether the reply is final, and its body."""
        frames = self.socket.recv_multipart()
        if self.version == 1:
            assert frames[:2] == [b"", b"MDPC01"], frames
            return True, frames[3:]
        assert frames[0] == b"MDPC02", frames
        assert frames[1] in (b"\x02", b"\x03"), frames
        return frames[1] == b"\x03", frames[3:]

    def call(self, service: bytes, *body: bytes) -> list[bytes]:
        self.send(service, *body)
        is_final, reply = self.receive()
        assert is_final
        return reply

    def close(self) -> None:
        self._context.destroy(linger=0)


class EchoWorker:
    """A worker with heartbeats. A request `fail silently` is never answered; others are echoed.

    Version 0.2 sends the first frame as a PARTIAL if the request begins with `stream`.
    """

    def __init__(self, endpoint: str, service: bytes, name: bytes, version: int) -> None:
        self.endpoint, self.service, self.name, self.version = endpoint, service, name, version
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.served = 0
        self._open()

    def _open(self) -> None:
        """Connect a new socket and register on it, as the text wants after a DISCONNECT."""
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.connect(self.endpoint)
        self.alive, self.beat_at = LIVENESS, time.monotonic() + BEAT
        self._send(b"\x01", self.service)

    def _send(self, command: bytes, *frames: bytes) -> None:
        head = [b"", b"MDPW01"] if self.version == 1 else [b"MDPW02"]
        self.socket.send_multipart([*head, command, *frames])

    def _heartbeat(self) -> bytes:
        return b"\x04" if self.version == 1 else b"\x05"

    def step(self) -> None:
        """Serve at most one message, and keep the heartbeat."""
        if self.socket.poll(round(BEAT * 1000)):
            self.alive = LIVENESS
            self._receive(self.socket.recv_multipart())
        else:
            self.alive -= 1
            if not self.alive:
                self._reopen()
        if time.monotonic() >= self.beat_at:
            self._send(self._heartbeat())
            self.beat_at = time.monotonic() + BEAT

    def _reopen(self) -> None:
        self.socket.close(linger=0)
        self._open()

    def _receive(self, frames: list[bytes]) -> None:
        if self.version == 1:
            assert frames.pop(0) == b""
        header, command, *rest = frames
        assert header == (b"MDPW01" if self.version == 1 else b"MDPW02"), frames
        if command == b"\x02":
            self._serve(rest)
        elif command != self._heartbeat():
            assert command == (b"\x05" if self.version == 1 else b"\x06"), frames
            self._reopen()

    def _serve(self, rest: list[bytes]) -> None:
        client, empty, *body = rest
        assert empty == b""
        self.served += 1
        if body == [b"fail silently"]:
            return
        if self.version == 2 and body[0] == b"stream":
            for piece in body[1:]:
                self._send(b"\x03", client, b"", piece)
            body = [b"end"]
        self._send(b"\x03" if self.version == 1 else b"\x04", client, b"", self.name, *body)

    def close(self) -> None:
        self._send(b"\x05" if self.version == 1 else b"\x06")
        self.context.destroy(linger=200)


def main() -> None:
    """Serve until killed."""
    version, endpoint, service, name = sys.argv[1:]
    worker = EchoWorker(endpoint, service.encode(), name.encode(), int(version))
    print("registered", flush=True)
    while True:
        worker.step()


if __name__ == "__main__":
    main()
