"""Reads requests: bodies within their bounds, JSON into structs, checked names."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from operator import getitem
from typing import Annotated, Any, Final, TypeVar

import msgspec
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request

from dragoman.web.identity import CALLER
from dragoman.web.problems import Problem

T = TypeVar("T")

JSON: Final = "application/json"
BYTES: Final = "application/octet-stream"
CLIENT_HEADER: Final = "Dragoman-Client"
KEY_HEADER: Final = "Idempotency-Key"
#: No number of the API has more digits.
_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")
#: What msgspec says of a float in the place of an integer, with its path.
_FLOAT: Final = re.compile(r"Expected `[^`]*\bint\b[^`]*`, got `float` - at `\$((?:\.\w+)+)`")
NAME_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}"
_NAME: Final = re.compile(NAME_PATTERN)
#: Names are stored in records and sent in headers, so they are bounded.
LONGEST_NAME: Final = 256
#: How the description of the API says what `checked_name` checks: JSON Schema has no pattern for
#: printable characters, so it is a format. It allows no control or invisible characters.
PRINTABLE: Final = {"format": "printable", "maxLength": LONGEST_NAME}
PrintableText = Annotated[str, msgspec.Meta(extra_json_schema=PRINTABLE)]
PrintableName = Annotated[str, msgspec.Meta(extra_json_schema=PRINTABLE | {"minLength": 1})]


class ClientDisconnected(Exception):
    """The caller closed the connection before the response."""


def client_name(request: Request) -> str:
    """Return the client's name: its header, else its principal, else its host."""
    name = request.headers.get(CLIENT_HEADER)
    if name is not None:
        if not _NAME.fullmatch(name):
            raise Problem(400, f"{CLIENT_HEADER} must be letters, digits and . _ @ -, not {name!r}")
        return name
    return CALLER.get().principal or (request.client.host if request.client else "unknown")


def checked_name(text: str, what: str) -> str:
    """Return a name, or raise a 400 problem."""
    if not text or len(text) > LONGEST_NAME or not text.isprintable():
        raise Problem(400, f"{what} must be printable text of 1 to {LONGEST_NAME} characters")
    return text


def media_type(headers: Headers) -> str:
    """Return the media type of a request's body."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_bytes(request: Request, at_most: int, patience: float) -> bytes:
    """Read a body. A body that is too large or too slow is refused before it is complete."""
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
    # The rest of the body is not read, so the connection cannot be used again.
    detail = f"the body has more than {at_most} bytes"
    return Problem(413, detail, "too_large", headers={"Connection": "close"})


def read_json(raw: bytes, shape: type[T]) -> T:
    """Read a JSON body into a struct; an empty body gives the defaults."""
    try:
        return _decode(raw or b"{}", shape)
    except msgspec.ValidationError as error:
        raise Problem(400, f"invalid body: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, f"the body is not JSON: {error}") from None


def _decode(raw: bytes, shape: type[T]) -> T:
    """Decode JSON. As in JSON Schema, 2.0 is an integer."""
    try:
        return msgspec.json.decode(raw, type=shape)
    except msgspec.ValidationError as error:
        if _FLOAT.search(str(error)) is None:
            raise
        wrong = error
    data = msgspec.json.decode(raw)
    while (found := _FLOAT.search(str(wrong))) is not None:
        *path, last = found[1].split(".")[1:]
        place = reduce(getitem, path, data)
        if not place[last].is_integer():
            break
        place[last] = int(place[last])
        try:
            return msgspec.convert(data, shape)
        except msgspec.ValidationError as error:
            wrong = error
    raise wrong


def require_json(headers: Headers) -> None:
    """Refuse other media types: pages of other sites may send those without a preflight."""
    if media_type(headers) != JSON:
        raise Problem(415, f"send the body as {JSON}", headers={"Accept-Post": JSON})


def number(request: Request, name: str, default: float, low: float, high: float) -> float:
    """Read a number from the query string and check its bounds."""
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        found = float(text)
    except ValueError:
        raise Problem(400, f"{name} must be a number, not {text!r}") from None
    if not low <= found <= high:
        raise Problem(400, f"{name} must be between {low:g} and {high:g}")
    return found


def whole_number(request: Request, name: str, default: int, low: int, high: int) -> int:
    """Read a whole number from the query string and check its bounds."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not _WHOLE.fullmatch(text):
        raise Problem(400, f"{name} must be a whole number, not {text[:100]!r}")
    if not low <= int(text) <= high:
        raise Problem(400, f"{name} must be between {low} and {high}")
    return int(text)


def idempotency_key(request: Request) -> str:
    """Return the key in a request's header; empty if it has none."""
    text = request.headers.get(KEY_HEADER, "")
    if not text.isascii():
        raise Problem(400, f"{KEY_HEADER} must be ASCII; put other keys into the body")
    return text


@contextmanager
def failing_on_disconnect(request: Request, future: "asyncio.Future[object]") -> Iterator[None]:
    """Fail a future with `ClientDisconnected` if the caller disconnects inside the block."""

    def fail(task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and not future.done():
            future.set_exception(ClientDisconnected())

    watcher = asyncio.create_task(_disconnected(request))
    watcher.add_done_callback(fail)
    try:
        yield
    finally:
        watcher.cancel()


async def _disconnected(request: Request) -> None:
    while True:
        message: Any = await request.receive()
        if message["type"] == "http.disconnect":
            return
