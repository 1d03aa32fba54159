"""NFP by hand: a DEALER and the frames as the notes of the protocol have them, no code of ours.

For tests that need to say what no well-behaved peer says, or thousands of peers in few processes.
"""

import json
import os
import time
from collections.abc import Iterator
from typing import Any, Final, Self

import zmq
from tests.interop.harness import until

CLIENT: Final = b"NFPC01"
WORKER: Final = b"NFPW01"
BROKER: Final = b"NFPB01"
OPEN, READY, KEEPALIVE, DISCONNECT = b"0x00", b"0x01", b"0x02", b"0x03"
POST, RESPONSE, GET, DELETE = b"0x04", b"0x05", b"0x06", b"0x07"
EVENT, STREAM, PUT, MMI = b"0x08", b"0x09", b"0x10", b"0x11"
MANAGEMENT: Final = b"mmi.service.broker"


def new_id() -> bytes:
    return os.urandom(16).hex().encode()


def post_body(task: str = "add", timeout: float = 60, **kwargs: Any) -> bytes:
    """The body of a POST as NorFab's client writes it."""
    said = {"task": task, "kwargs": kwargs, "args": [], "timeout": timeout}
    return json.dumps(said).encode()


class Raw:
    """One DEALER. Frames are given and returned without the empty first one."""

    def __init__(self, endpoint: str, identity: bytes, context: Any = None) -> None:
        self.identity = identity
        self.context: zmq.Context[zmq.Socket[bytes]] = context or zmq.Context.instance()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.SNDHWM, 0)
        self.socket.setsockopt(zmq.RCVHWM, 0)
        if identity:
            self.socket.setsockopt(zmq.IDENTITY, identity)
        self.socket.connect(endpoint)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, *frames: bytes) -> None:
        self.socket.send_multipart([b"", *frames])

    def get(self, at_most: float = 10.0) -> list[bytes]:
        """The next message; fails when none comes."""
        found = self.get_or_none(at_most)
        assert found is not None, f"{self.identity!r} got nothing within {at_most:g} s"
        return found

    def get_or_none(self, at_most: float = 0.0) -> list[bytes] | None:
        if not self.socket.poll(int(at_most * 1000)):
            return None
        frames = self.socket.recv_multipart()
        assert frames[0] == b"", f"the first frame is not empty: {frames}"
        return frames[1:]

    def stream(self, at_most: float) -> Iterator[list[bytes]]:
        """Everything that comes until the time is over."""
        deadline = time.monotonic() + at_most
        while (left := deadline - time.monotonic()) > 0:
            if (found := self.get_or_none(left)) is not None:
                yield found


class RawClient(Raw):
    """A client."""

    def ask(
        self, command: bytes, service: bytes, target: bytes, uuid: bytes, body: bytes = b""
    ) -> None:
        self.send(CLIENT, command, service, target, uuid, body)

    def post(
        self,
        service: bytes = b"raw",
        target: bytes = b"any",
        body: bytes | None = None,
        uuid: bytes | None = None,
    ) -> bytes:
        """Submit a job; return its id."""
        uuid = uuid or new_id()
        self.ask(POST, service, target, uuid, post_body() if body is None else body)
        return uuid

    def reply(
        self, uuid: bytes, command: bytes = RESPONSE, at_most: float = 10.0
    ) -> tuple[str, Any]:
        """The next message about a job: its status and what it says."""
        for frames in self.stream(at_most):
            assert len(frames) == 6, f"a client's message has seven frames: {frames}"
            if frames[1] == command and frames[3] == uuid:
                return frames[4].decode(), json.loads(frames[5])
        raise AssertionError(f"no {command!r} about {uuid!r} within {at_most:g} s")

    def manage(self, task: str, **kwargs: Any) -> Any:
        """Ask the broker for a management task."""
        uuid = new_id()
        body = json.dumps({"task": task, "kwargs": kwargs, "args": []}).encode()
        self.ask(MMI, MANAGEMENT, b"any", uuid, body)
        status, said = self.reply(uuid, MMI)
        assert status == "200", said
        return said

    def jobs(self, state: str) -> list[dict[str, Any]]:
        """The jobs in a state; questions to the broker itself are jobs too, and left out."""
        rows = self.manage("show_jobs", state=state)
        return [row for row in rows if row["service"] != MANAGEMENT.decode()]


class RawWorker(Raw):
    """A worker that does what the test says."""

    def __init__(
        self, endpoint: str, identity: bytes, service: bytes = b"raw", context: Any = None
    ) -> None:
        super().__init__(endpoint, identity, context)
        self.service = service

    def ready(self) -> Self:
        self.send(WORKER, READY, self.service)
        return self

    def beat(self) -> None:
        self.send(WORKER, KEEPALIVE, self.service)

    def job(self, at_most: float = 10.0) -> tuple[bytes, bytes, bytes]:
        """The next POST: client, job id, body."""
        for frames in self.stream(at_most):
            if frames[1] == POST:
                return frames[2], frames[4], frames[5]
        raise AssertionError(f"{self.identity!r} got no job within {at_most:g} s")

    def respond(self, client: bytes, uuid: bytes, status: bytes, said: Any) -> None:
        body = json.dumps(said).encode()
        self.send(WORKER, RESPONSE, client, b"", uuid, status, body)

    def finish(self, client: bytes, uuid: bytes, result: Any = None) -> None:
        """Answer with a whole result object, as NorFab's worker has it."""
        name = self.identity.decode()
        said = {
            "result": result,
            "failed": False,
            "errors": [],
            "task": f"{name}:raw",
            "messages": [],
            "juuid": uuid.decode(),
            "status": "completed",
            "service": self.service.decode(),
        }
        self.respond(client, uuid, b"200", {name: said})

    def event(self, client: bytes, uuid: bytes, said: Any) -> None:
        self.send(WORKER, EVENT, client, b"", uuid, b"200", json.dumps(said).encode())


def until_workers(endpoint: str, *names: str, at_most: float = 30.0) -> None:
    """Wait until these workers are registered."""
    with RawClient(endpoint, b"looking-" + new_id()[:8]) as client:

        def are_there() -> bool:
            rows = client.manage("list_workers")
            return set(names) <= {row["name"] for row in rows if row["status"] == "alive"}

        until(are_there, f"workers {names} are there", at_most, every=0.05)
