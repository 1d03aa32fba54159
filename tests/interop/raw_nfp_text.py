"""Peers of NFP as the text has them, on plain pyzmq: one-byte commands, a REQ client.

No code of ours. Frames are given and returned without the empty first one.
"""

from typing import Final, Self

import zmq

CLIENT, WORKER, BROKER = b"NFPC01", b"NFPW01", b"NFPB01"
OPEN, READY, KEEPALIVE, DISCONNECT = b"\x00", b"\x01", b"\x02", b"\x03"
POST, RESPONSE, GET, DELETE = b"\x04", b"\x05", b"\x06", b"\x07"
#: The statuses that the text lists; an implementation "MAY NOT use" others.
STATUSES: Final = frozenset({b"200", b"202", b"300", b"400", b"408", b"417", b"500"})


class _Socket:
    def __init__(self, kind: int, endpoint: str, identity: bytes = b"") -> None:
        self.socket: zmq.Socket[bytes] = zmq.Context.instance().socket(kind)
        self.socket.setsockopt(zmq.LINGER, 0)
        if identity:
            self.socket.setsockopt(zmq.IDENTITY, identity)
        self.socket.connect(endpoint)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.socket.close()

    def is_silent(self, milliseconds: int = 200) -> bool:
        """Nothing more has come. A REQ socket drops what comes unasked, so use it on DEALERs."""
        return not self.socket.poll(milliseconds)


class ReqClient(_Socket):
    """The client that the text recommends: a REQ socket, one reply for each request."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(zmq.REQ, endpoint)

    def ask(
        self,
        command: bytes,
        uuid: bytes,
        *body: bytes,
        service: bytes = b"text",
        target: bytes = b"any",
    ) -> tuple[bytes, tuple[bytes, ...]]:
        """Send a request; return status and content frames of its one reply."""
        self.socket.send_multipart([CLIENT, command, service, target, uuid, *(body or (b"",))])
        assert self.socket.poll(10_000), f"no reply to {command!r}"
        header, answer, said_service, said_uuid, status, *content = self.socket.recv_multipart()
        assert (header, answer, said_uuid) == (BROKER, RESPONSE, uuid)
        assert said_service == service
        assert status in STATUSES, status
        return status, tuple(content)

    def until_done(self, uuid: bytes, **more: bytes) -> tuple[bytes, tuple[bytes, ...]]:
        """GET until the status is no longer 300."""
        while (found := self.ask(GET, uuid, **more))[0] == b"300":
            pass
        return found


class TextDealer(_Socket):
    """A DEALER whose first frame is empty."""

    def __init__(self, endpoint: str, identity: bytes = b"") -> None:
        super().__init__(zmq.DEALER, endpoint, identity)

    def send(self, *frames: bytes) -> None:
        self.socket.send_multipart([b"", *frames])

    def get(self) -> list[bytes]:
        assert self.socket.poll(10_000), "nothing came"
        found: list[bytes] = self.socket.recv_multipart()
        assert found[0] == b""
        return found[1:]


class TextWorker(TextDealer):
    """A worker that does one request at a time."""

    def __init__(self, endpoint: str, identity: bytes = b"", service: bytes = b"text") -> None:
        super().__init__(endpoint, identity)
        self.service = service

    def ready(self) -> Self:
        self.send(WORKER, OPEN, b"")
        assert self.get()[:2] == [BROKER, OPEN]
        self.send(WORKER, READY, self.service)
        return self

    def job(self) -> tuple[bytes, bytes, tuple[bytes, ...]]:
        """The next POST: client, job id, body frames."""
        while True:
            header, command, *rest = self.get()
            assert header == BROKER
            if command == POST:
                client, empty, uuid, *body = rest
                assert empty == b""
                return client, uuid, tuple(body)

    def until(self, command: bytes) -> list[bytes]:
        """The next message with this command."""
        while (frames := self.get())[1] != command:
            pass
        return frames

    def respond(self, client: bytes, uuid: bytes, status: bytes, *content: bytes) -> None:
        self.send(WORKER, RESPONSE, client, b"", uuid, status, *content)

    def respond_short(self, uuid: bytes, status: bytes, *content: bytes) -> None:
        """The form of the text's own table."""
        self.send(WORKER, RESPONSE, self.service, uuid, status, *content)
