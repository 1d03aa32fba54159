"""Large values as references: the value is a file of the broker's file service.

    client = Client(url, large_values=LargeValues("nf://drop/values"))

An argument above the bound is stored as a file that is named by its SHA-256, once for all calls
that have it; the call carries `{"$value": url, "form": ..., "bytes": ...}`. An SDK worker gives the
task the value itself, and an SDK client does the same with results. Other peers can fetch the file.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any, Final

from dragoman.model.content import Answer, Call
from dragoman.model.value import value
from dragoman.sdk.errors import DragomanError

#: How the URLs of the file service begin.
SCHEME: Final = "nf://"
REFERENCE: Final = "$value"
_MEMBERS: Final = frozenset({REFERENCE, "form", "bytes"})
_NAME: Final = re.compile("[0-9a-f]{64}")
#: How a file holds a value: bytes as they are, everything else as MessagePack, which has bytes.
BYTES: Final = "bytes"
MESSAGE_PACK: Final = "msgpack"
#: Larger values travel as references, if a folder for them is set. As base64 they still fit into a
#: message of NATS (1 MiB).
LARGE: Final = 512 * 1024
#: Larger values are not loaded: a reference may name a file of any size.
LARGEST: Final = 1 << 30


class ValueLost(DragomanError):
    """The file of a reference is not what the reference says, or cannot be loaded."""


@value
class LargeValues:
    """Where values above a bound are stored: a folder in a writable root of the file service."""

    folder: str
    #: Size in bytes above which a value is stored.
    above: int = LARGE
    #: Size in bytes above which a value is not loaded into memory.
    largest: int = LARGEST

    def __post_init__(self) -> None:
        """Raise ValueError for a folder that no value can be put in, or a bound without sense."""
        if self.largest < 1:
            raise ValueError(f"largest is {self.largest}; it is a number of bytes from 1")
        if not self.folder.startswith(SCHEME):
            raise ValueError(f"{self.folder!r} is no folder for values; it begins with {SCHEME}")

    def is_large(self, found: object) -> bool:
        """Whether a value is stored. One that MessagePack cannot hold is not."""
        if found is None or isinstance(found, bool | int | float):
            return False
        if isinstance(found, str | bytes | bytearray):
            return len(found) > self.above
        try:
            return len(_message_pack(found)) > self.above
        except (TypeError, ValueError, OverflowError, RecursionError):
            return False

    def has_large(self, call: Call) -> bool:
        """Whether an argument of a call is stored."""
        return any(map(self.is_large, (*call.args, *call.kwargs.values())))

    def is_large_answer(self, answer: Answer) -> bool:
        """Whether a result is stored."""
        return answer.fault is None and self.is_large(content_of(answer))


def _message_pack(found: object) -> bytes:
    # Imported here, because most programs that import a client have no large values.
    import msgspec

    return msgspec.msgpack.encode(found)


def content_of(answer: Answer) -> Any:
    """Return the result of an answer, whichever form it has."""
    return answer.raw if answer.raw is not None else answer.value


@value
class StoredValue:
    """A reference: where the file of a value is, how it holds the value, and its size."""

    url: str
    form: str
    size: int

    @property
    def name(self) -> str:
        """The last part of the URL: the SHA-256 of the file."""
        return self.url.rpartition("/")[2]

    def members(self) -> dict[str, object]:
        """Return the form in which a message carries it."""
        return {REFERENCE: self.url, "form": self.form, "bytes": self.size}


def packed(found: object, folder: str) -> tuple[StoredValue, bytes]:
    """Return the reference of a value and the bytes of its file."""
    if isinstance(found, bytes | bytearray):
        form, data = BYTES, bytes(found)
    else:
        form, data = MESSAGE_PACK, _message_pack(found)
    url = f"{folder.rstrip('/')}/{sha256(data).hexdigest()}"
    return StoredValue(url, form, len(data)), data


def read_reference(found: object) -> StoredValue | None:
    """Return the reference that a value is; None for any other value."""
    if not isinstance(found, Mapping) or found.keys() != _MEMBERS:
        return None
    url, form, size = found[REFERENCE], found["form"], found["bytes"]
    if not isinstance(url, str) or form not in (BYTES, MESSAGE_PACK) or not isinstance(size, int):
        return None
    stored = StoredValue(url, form, size)
    return stored if url.startswith(SCHEME) and _NAME.fullmatch(stored.name) else None


def is_reference(found: object) -> bool:
    """Whether a value is a reference. Almost no value is, so this is quick to say no."""
    return isinstance(found, dict) and REFERENCE in found and read_reference(found) is not None


def check_size(stored: StoredValue, largest: int) -> None:
    """Raise `ValueLost` if the value of a reference is too large to be loaded."""
    if stored.size > largest:
        raise ValueLost(
            f"the value at {stored.url} has {stored.size:,} bytes, and this program loads at most "
            f"{largest:,}: set LargeValues(..., largest=BYTES), or fetch the file"
        )


def unpacked(stored: StoredValue, data: bytes) -> Any:
    """Return the value in a file. Raises `ValueLost` if it is not the file of this reference."""
    if len(data) != stored.size or sha256(data).hexdigest() != stored.name:
        raise ValueLost(f"{stored.url} is not the value that was stored; submit the job again")
    if stored.form == BYTES:
        return data
    import msgspec

    try:
        return msgspec.msgpack.decode(data)
    except msgspec.DecodeError as error:
        raise ValueLost(f"{stored.url} holds no value: {error}") from None


# --- storing and loading --------------------------------------------------------------------------

#: Uploads bytes to a URL; returns the bytes of a URL, if they are no more than a number.
Upload = Callable[[bytes, str], Awaitable[None]]
Download = Callable[[str, int], Awaitable[bytes]]


async def store(found: object, values: LargeValues, upload: Upload) -> object:
    """Return the reference of a large value, uploaded; another value as it is."""
    if not values.is_large(found):
        return found
    stored, data = packed(found, values.folder)
    await upload(data, stored.url)
    return stored.members()


async def store_arguments(call: Call, values: LargeValues, upload: Upload) -> Call:
    """Return a call with references in place of its large arguments."""
    args = [await store(each, values, upload) for each in call.args]
    kwargs = {name: await store(each, values, upload) for name, each in call.kwargs.items()}
    return Call(call.task, tuple(args), kwargs, call.raw, call.headers, call.timeout)


async def load(found: object, download: Download, largest: int = LARGEST) -> Any:
    """Return the value of a reference; another value as it is. Raises `ValueLost`."""
    stored = read_reference(found)
    if stored is None:
        return found
    check_size(stored, largest)
    try:
        data = await download(stored.url, stored.size)
    except DragomanError as error:
        raise ValueLost(
            f"the value at {stored.url} cannot be read: {error}; values are kept as long as the "
            f"broker's setting files.keep_days says"
        ) from None
    return unpacked(stored, data)
