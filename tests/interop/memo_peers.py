"""memo01 peers on pynng, NNG's own implementation, and a wire between them that can be cut."""

import contextlib
import socket
import threading
from typing import Any

import pynng

from dragoman.dialects.memo01.wire import (
    MemoHeartbeat,
    MemoJob,
    MemoMessage,
    MemoReady,
    MemoResult,
    decode,
    encode,
)

#: How long peers wait for what should come.
PATIENCE = 20.0
#: How long they wait for what should not.
SOON = 0.3


class Requester:
    """One NNG socket; everybody who asks through it has a context of their own."""

    def __init__(self, endpoint: str, **options: Any) -> None:
        self.socket = pynng.Req0(
            recv_max_size=64 * 1024 * 1024,
            reconnect_time_min=20,
            reconnect_time_max=100,
            **options,
        )
        self.socket.dial(endpoint, block=False)
        self._contexts: list[pynng.Context] = []

    def context(self, patience: float = PATIENCE) -> pynng.Context:
        # A context takes the time-outs that the socket has when it is made.
        self.socket.recv_timeout = round(patience * 1000)
        self.socket.send_timeout = round(PATIENCE * 1000)
        context = self.socket.new_context()
        self._contexts.append(context)
        return context

    def ask(self, message: MemoMessage | bytes, patience: float = PATIENCE) -> MemoMessage | None:
        """Send one request and return its answer; None when there is none."""
        context = self.context(patience)
        say(context, message)
        return hear(context)

    def __enter__(self) -> "Requester":
        return self

    def __exit__(self, *exc: object) -> None:
        for context in self._contexts:
            context.close()
        self.socket.close()


def say(context: pynng.Context, message: MemoMessage | bytes) -> None:
    context.send(message if isinstance(message, bytes) else encode(message))


def hear(context: pynng.Context) -> MemoMessage | None:
    try:
        return decode(context.recv())
    except pynng.Timeout:
        return None


class MemoWorker:
    """One worker on a context: a request is always open, or it is its turn to speak."""

    def __init__(self, requester: Requester, *services: str, patience: float = PATIENCE) -> None:
        self.context = requester.context(patience)
        self.services = services or ("svc",)
        self.id = b""
        self.ready()

    def ready(self) -> None:
        say(self.context, MemoReady(self.services))

    def hear(self) -> MemoMessage | None:
        message = hear(self.context)
        if isinstance(message, MemoJob | MemoHeartbeat):
            self.id = message.id
        return message

    def next_job(self) -> MemoJob:
        """Answer heartbeats until there is a job."""
        while isinstance(message := self.hear(), MemoHeartbeat):
            self.beat()
        assert isinstance(message, MemoJob), message
        return message

    def beat(self) -> None:
        say(self.context, MemoHeartbeat(self.id))

    def finish(self, payload: bytes = b"", is_leaving: bool = False) -> None:
        say(self.context, MemoResult(self.id, payload, is_leaving))


class Cable:
    """A TCP connection to a broker that can be cut; the next one goes through again."""

    def __init__(self, endpoint: str) -> None:
        host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
        self._to = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._to)
                self._ends += [near, far]
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Close every connection that goes through."""
        ends, self._ends = self._ends, []
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def __enter__(self) -> "Cable":
        return self

    def __exit__(self, *exc: object) -> None:
        self._listener.close()
        self.cut()
