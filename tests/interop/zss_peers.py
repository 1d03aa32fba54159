"""ZSS peers for tests: the published JavaScript ones as processes, and raw ones on plain pyzmq.

The raw ones are written from the protocol's text with the msgpack package alone, so that they share
no code with what they test.
"""

import json
import os
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgpack
import zmq
from tests.interop.harness import PATIENCE, Broker, Fleet, Process, until

NODE: Final = Path(__file__).parent / "node"
ENV: Final = {"NODE_OPTIONS": "--no-deprecation"}
SOON_MS: Final = 15_000

Call = Sequence[Any]


def pack(value: object) -> bytes:
    packed: bytes = msgpack.packb(value, use_bin_type=False)
    return packed


def start_service(fleet: Fleet, endpoint: str, sid: str = "PONG", beat_ms: int = 500) -> Process:
    """Start a service on the published library."""
    command = ("node", "peer-service.js", endpoint, sid, str(beat_ms))
    return fleet.run(*command, name="zss-service", env=ENV, cwd=NODE)


def js_calls(
    broker: Broker, sid: str, calls: Sequence[Call], together: bool = False
) -> list[dict[str, Any]]:
    """Make calls with the published client; return what it printed, in the order of the calls."""
    told = js_calls_as_settled(broker, sid, calls, together)
    return sorted(told, key=lambda line: int(line["number"]))


def js_calls_as_settled(
    broker: Broker, sid: str, calls: Sequence[Call], together: bool = False
) -> list[dict[str, Any]]:
    """Make calls with the published client; return what it printed, in the order it did."""
    command = ["node", "peer-client.js", broker.endpoints["zss"], sid, json.dumps(calls)]
    done = subprocess.run(
        [*command, *(["together"] if together else [])],
        cwd=NODE,
        env={**os.environ, **ENV},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


class RawClient:
    """A DEALER that speaks ZSS as a client: seven frames either way."""

    def __init__(self, broker: Broker, identity: bytes | None = b"raw#1") -> None:
        self._context = zmq.Context()
        self.socket = self._context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        if identity is not None:
            self.socket.setsockopt(zmq.IDENTITY, identity)
        self.socket.connect(broker.endpoints["zss"])

    def send(
        self, sid: str, verb: str, payload: object = None, rid: str = "", sversion: str = "*"
    ) -> str:
        """Ask; return the request id."""
        rid = rid or str(uuid.uuid4())
        address = pack({"sid": sid, "sversion": sversion, "verb": verb})
        frames = [b"ZSS:0.0", b"REQ", rid.encode(), address, b"\x80", b"", pack(payload)]
        self.socket.send_multipart(frames)
        return rid

    def receive(self) -> tuple[str, int, Any]:
        """Wait for a reply: request id, status, payload."""
        assert self.socket.poll(SOON_MS), "no reply"
        _, kind, rid, _, _, status, payload = self.socket.recv_multipart()
        assert kind == b"REP"
        return rid.decode(), int(status), msgpack.unpackb(payload)

    def call(self, sid: str, verb: str, payload: object = None, **more: str) -> tuple[int, Any]:
        """Ask and wait: status and payload."""
        self.send(sid, verb, payload, **more)
        _, status, said = self.receive()
        return status, said

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


class RawService(RawClient):
    """A DEALER that speaks ZSS as a service: eight frames for requests and replies."""

    def __init__(self, broker: Broker, sid: str, identity: bytes) -> None:
        self._context = zmq.Context()
        self.socket = self._context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.IDENTITY, identity)
        self.socket.connect(broker.endpoints["zss_backend"])
        self.sid, self.identity = sid, identity

    def smi(self, verb: str) -> int:
        """Say something to SMI; return its status."""
        address = pack({"sid": "SMI", "sversion": "*", "verb": verb})
        head = [self.identity, b"ZSS:0.0", b"REQ", str(uuid.uuid4()).encode()]
        self.socket.send_multipart([*head, address, b"\xc0", b"null", pack(self.sid)])
        assert self.socket.poll(SOON_MS), "SMI is silent"
        return int(self.socket.recv_multipart()[5])

    def next_request(self) -> list[bytes]:
        """Wait for a request."""
        assert self.socket.poll(SOON_MS), "no request"
        frames: list[bytes] = self.socket.recv_multipart()
        assert frames[2] == b"REQ"
        return frames

    def reply(self, request: list[bytes], payload: object, status: bytes = b"200") -> None:
        """Answer a request."""
        self.socket.send_multipart([*request[:2], b"REP", *request[3:6], status, pack(payload)])


def until_served(broker: Broker, sid: str = "PONG", instances: int = 1) -> None:
    """Wait until so many instances of the JavaScript service answer."""
    with RawClient(broker, b"probe#1") as probe:

        def pids() -> bool:
            answers = [probe.call(sid, "who") for _ in range(3 * instances)]
            return len({said["pid"] for status, said in answers if status == 200}) == instances

        until(pids, f"{instances} instances of {sid} answer", every=0.05)
