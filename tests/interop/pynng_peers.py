"""memo01 peers made of pynng and cbor2 alone, from the protocol's text: they share no code of ours.

Imported, this is a client; run as a module it is a process of workers that offers the tasks of the
matrix: `python -m tests.interop.pynng_peers ENDPOINT SERVICE WORKERS`.
"""

import os
import sys
import threading
import time
from io import BytesIO
from typing import Any, Final

import cbor2
import pynng

READY, JOB, RESULT, HEARTBEAT, DISCONNECT = 1, 2, 3, 4, 5
#: CBOR's self-describe tag, which a payload may begin with to say that it is CBOR.
TAG: Final = b"\xd9\xd9\xf7"
_LARGEST: Final = 64 * 2**20


def write(kind: int, *fields: Any, payload: bytes = b"") -> bytes:
    return cbor2.dumps(["memo01", kind, *fields]) + payload


def read(message: bytes) -> tuple[int, bytes, bytes]:
    """Read a message: its type, the worker's ID, the payload."""
    stream = BytesIO(message)
    header = cbor2.CBORDecoder(stream).decode()
    assert header[0] == "memo01"
    return header[1], header[2], message[stream.tell() :]


class PynngClient:
    """One NNG socket; each request has a context of its own."""

    def __init__(self, endpoint: str) -> None:
        self._socket = pynng.Req0(recv_max_size=_LARGEST, send_timeout=20_000)
        self._socket.dial(endpoint, block=True)

    def begin(self, service: str, task: str, args: list[Any], timeout: float) -> pynng.Context:
        """Ask; a request is open as long as its context is."""
        # A context takes the time-outs that the socket has when it is made.
        self._socket.recv_timeout = round(timeout * 1000)
        context = self._socket.new_context()
        call = cbor2.dumps({"task": task, "args": args, "kwargs": {}})
        context.send(write(JOB, b"", service, round(timeout * 1000), payload=call))
        return context

    def end(self, context: pynng.Context) -> Any:
        """Wait for the answer. Raises `pynng.Timeout`, for that is all the text has for trouble."""
        try:
            kind, _, payload = read(context.recv())
        finally:
            context.close()
        assert kind == RESULT
        return cbor2.loads(payload)

    def close(self) -> None:
        self._socket.close()


# --- the worker's process ------------------------------------------------------------------------


def _noted(path: str, seconds: float) -> int:
    """Leave a trace that the job has begun, and say who did it; the first process takes long."""
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\n")
    with open(path) as file:
        is_first = file.readline().strip() == str(os.getpid())
    time.sleep(seconds if is_first else 0.0)
    return os.getpid()


def _slow(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"


_TASKS: Final[dict[str, Any]] = {"echo": lambda value: value, "slow": _slow, "noted": _noted}


def _answer(payload: bytes) -> bytes:
    """Do a call; who asked with the tag is answered with it."""
    tag = TAG if payload.startswith(TAG) else b""
    call = cbor2.loads(payload.removeprefix(TAG))
    said = _TASKS[call["task"]](*call.get("args", ()), **call.get("kwargs", {}))
    return tag + cbor2.dumps(said)


def _work(socket: pynng.Req0, service: str) -> None:
    """One worker: a request of its own is always open, or it is its turn to speak."""
    context = socket.new_context()
    say = write(READY, b"", [service])
    while True:
        context.send(say)
        kind, worker, payload = read(context.recv())
        if kind == JOB:
            say = write(RESULT, worker, payload=_answer(payload))
        else:
            say = write(HEARTBEAT, worker) if kind == HEARTBEAT else write(READY, b"", [service])


def _main(endpoint: str, service: str, workers: str) -> None:
    socket = pynng.Req0(recv_max_size=_LARGEST)
    socket.dial(endpoint, block=True)
    threads = [threading.Thread(target=_work, args=(socket, service)) for _ in range(int(workers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    _main(*sys.argv[1:])
