"""Reading requests: bodies within their bounds, JSON by its shape, names that may be names."""

import asyncio
import re
from collections.abc import Awaitable
from typing import Any, Final, TypeVar

import msgspec
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request

from dragoman.web.identity import CALLER
from dragoman.web.problems import Problem

T = TypeVar("T")

JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"
CLIENT_HEADER: Final = "Dragoman-Client"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}")
#: Names travel in records and headers; longer ones are mistakes or worse.
LONGEST_NAME: Final = 256


class ClientDisconnected(Exception):
    """The caller went away before its answer."""


def client_name(request: Request) -> str:
    """Return who is asking: the name it gives itself, else whom it proved to be, else its host."""
    said = request.headers.get(CLIENT_HEADER)
    if said is not None:
        if not _NAME.fullmatch(said):
            raise Problem(400, f"{CLIENT_HEADER} is letters, digits and . _ @ -, not {said!r}")
        return said
    return CALLER.get().principal or (request.client.host if request.client else "unknown")


def checked_name(text: str, what: str) -> str:
    """Return a name that may be one."""
    if not text or len(text) > LONGEST_NAME or not text.isprintable():
        raise Problem(400, f"{what} is printable text of 1 to {LONGEST_NAME} characters")
    return text


def media_type(headers: Headers) -> str:
    """Return what kind of body a request says it has."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_bytes(request: Request, at_most: int, patience: float) -> bytes:
    """Read a body; refuse one that is too large as soon as that is clear, or too slow."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > at_most:
        raise _too_large(at_most)
    found = bytearray()
    try:
        async with asyncio.timeout(patience):
            async for piece in request.stream():
                found += piece
                if len(found) > at_most:
                    raise _too_large(at_most)
    except TimeoutError:
        raise Problem(408, f"the body did not arrive within {patience:g} s") from None
    except ClientDisconnect:
        raise ClientDisconnected from None
    return bytes(found)


def _too_large(at_most: int) -> Problem:
    # What is not read cannot be skipped, so the connection is of no more use.
    words = f"the body may have {at_most} bytes"
    return Problem(413, words, "too_large", headers={"Connection": "close"})


def read_json(raw: bytes, shape: type[T]) -> T:
    """Read a JSON body of a given shape; an empty one has all its defaults."""
    try:
        return msgspec.json.decode(raw or b"{}", type=shape)
    except msgspec.ValidationError as error:
        raise Problem(400, f"the body does not fit: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, f"the body is not JSON: {error}") from None


def require_json(headers: Headers) -> None:
    """Refuse other bodies: pages of other sites can send those without asking."""
    if media_type(headers) != JSON:
        raise Problem(415, f"send the body as {JSON}", headers={"Accept-Post": JSON})


def number(request: Request, name: str, default: float, low: float, high: float) -> float:
    """Read a number from the query, within bounds."""
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        found = float(text)
    except ValueError:
        raise Problem(400, f"{name} is a number, not {text!r}") from None
    if not low <= found <= high:
        raise Problem(400, f"{name} is between {low:g} and {high:g}")
    return found


async def unless_disconnected(request: Request, work: Awaitable[T]) -> T:
    """Wait for something as long as the caller does; raises `ClientDisconnected` when it went
    away.
    """
    job = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({job, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if job.done():
            return job.result()
        raise ClientDisconnected
    finally:
        for task in (job, leaving):
            task.cancel()
        await asyncio.gather(job, leaving, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while True:
        message: Any = await request.receive()
        if message["type"] == "http.disconnect":
            return
