"""DagBox messages have parts: one MessagePack object each, answers in the same order."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack

from dragoman import Worker

URL = "dcp://127.0.0.1:5566"


class BadPart(Exception):
    """A part that the service cannot use. The message is its answer."""


def read(part: bytes, **members: type) -> dict[str, Any]:
    """Decode one part and check its members."""
    try:
        request = msgpack.unpackb(part)
    except (ValueError, msgpack.UnpackException) as trouble:
        raise BadPart(f"not MessagePack: {trouble}") from None
    return checked(request, **members)


def checked(request: object, **members: type) -> dict[str, Any]:
    """Check that a request has these members with these types."""
    if not isinstance(request, dict):
        raise BadPart("a request must be a map")
    for name, kind in members.items():
        if not isinstance(request.get(name), kind):
            raise BadPart(f"{name} is missing or is not a {kind.__name__}")
    return request


def write(value: object) -> bytes:
    """Encode one part."""
    packed: bytes = msgpack.packb(value)
    return packed


def error(message: object) -> bytes:
    """Encode the answer to a part that failed."""
    return write({"error": str(message)})


def with_fallback(worker: Worker, answer: Callable[..., list[bytes]]) -> Worker:
    """Give a worker a fallback: requests of DagBox name no task."""
    worker.fallback(answer)
    return worker


def options(description: str, *, with_folder: bool) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--url", default=URL, help="the broker")
    if with_folder:
        parser.add_argument("--folder", type=Path, default=Path("dagbox-data"), help="the data")
    return parser.parse_args()
