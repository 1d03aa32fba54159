"""DagBox speaks in parts: one MessagePack object each, answers in the same positions."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack

from dragoman import Worker

URL = "dcp://127.0.0.1:5566"


class BadPart(Exception):
    """A part that is not what the service takes; the words are its answer."""


def read(part: bytes, **members: type) -> dict[str, Any]:
    """Read one part and see that it has these members."""
    try:
        said = msgpack.unpackb(part)
    except (ValueError, msgpack.UnpackException) as trouble:
        raise BadPart(f"not MessagePack: {trouble}") from None
    return checked(said, **members)


def checked(said: object, **members: type) -> dict[str, Any]:
    """See that a request has these members, each of its type."""
    if not isinstance(said, dict):
        raise BadPart("a request is a map")
    for name, kind in members.items():
        if not isinstance(said.get(name), kind):
            raise BadPart(f"{name} is missing or is no {kind.__name__}")
    return said


def write(value: object) -> bytes:
    """Write one part."""
    packed: bytes = msgpack.packb(value)
    return packed


def error(words: object) -> bytes:
    """Write the answer to a part that cannot be answered."""
    return write({"error": str(words)})


def offer(worker: Worker, answer: Callable[..., list[bytes]]) -> Worker:
    """Let a worker answer whatever comes: requests of DagBox name no task."""
    worker.fallback(answer)
    return worker


def options(description: str, *, with_folder: bool) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--url", default=URL, help="the broker")
    if with_folder:
        parser.add_argument("--folder", type=Path, default=Path("dagbox-data"), help="the data")
    return parser.parse_args()
