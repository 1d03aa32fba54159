"""How messages are spoilt: bits, lengths, frames, order, and types inside of what is encoded.

Everything is decided by the random numbers handed in, so the same seed spoils the same way.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

Frames = list[bytes]

#: Values that are right nowhere, or only just: the edges of every type.
ODD: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    -(2**31),
    2**53 + 1,
    2**63,
    -(2**63),
    2**64 - 1,
    1e308,
    float("inf"),
    float("nan"),
    -1e-308,
    "",
    " ",
    "\x00",
    "any",
    "all",
    "*",
    "naïve ☃",
    "x" * 300,
    "1e9",
    "-1",
    "../../etc",
    [],
    {},
    [[]],
    {"": ""},
    {"a": {"b": {"c": [1]}}},
    [None] * 50,
)
#: What stands for a length or a count in binary encodings, at its worst.
_COUNTS: Final = (
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\xff" * 8,
    b"\x00" * 4,
    b"\xdd\xff\xff\xff\xff",  # MessagePack: an array of four thousand million
    b"\xdf\xff\xff\xff\xff",  # ... a map
    b"\xc6\xff\xff\xff\xff",  # ... bytes
    b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff",  # CBOR: an array
    b"\x5b\x7f\xff\xff\xff\xff\xff\xff\xff",  # ... bytes
    b"\x9f" * 60,  # ... arrays in arrays, never ended
    b"\x91" * 60,  # MessagePack: the same
    b"[" * 200,  # JSON: the same
    b'{"a":' * 100,
)


class Mutator:
    """Spoils bytes, frames and values."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._of_bytes: tuple[Callable[[bytes], bytes], ...] = (
            self._flip,
            self._flip,
            self._cut,
            self._grow,
            self._splice,
            self._count,
            self._noise,
            lambda data: b"",
        )
        self._of_frames: tuple[Callable[[Frames], Frames], ...] = (
            self._spoil_one,
            self._spoil_one,
            self._spoil_one,
            self._drop,
            self._double,
            self._swap,
            self._truncate,
            self._insert,
            self._pile,
        )

    # --- bytes --------------------------------------------------------------------------------

    def spoil(self, data: bytes) -> bytes:
        """Spoil some bytes."""
        return self.random.choice(self._of_bytes)(data)

    def _flip(self, data: bytes) -> bytes:
        if not data:
            return b"\x01"
        spoilt = bytearray(data)
        for _ in range(self.random.choice((1, 1, 2, 8))):
            spoilt[self.random.randrange(len(spoilt))] ^= 1 << self.random.randrange(8)
        return bytes(spoilt)

    def _cut(self, data: bytes) -> bytes:
        return data[: self.random.randrange(len(data) + 1)]

    def _grow(self, data: bytes) -> bytes:
        return data + self.random.randbytes(self.random.choice((1, 4, 64, 500)))

    def _splice(self, data: bytes) -> bytes:
        """Write a piece of the bytes over another piece of them."""
        if len(data) < 4:
            return data * 2
        at, to = self.random.randrange(len(data)), self.random.randrange(len(data))
        return data[:to] + data[at : at + 16] + data[to + 8 :]

    def _count(self, data: bytes) -> bytes:
        """Put a count that is far too large where one may be."""
        at = self.random.randrange(len(data) + 1)
        worst = self.random.choice(_COUNTS)
        return data[:at] + worst + data[at + len(worst) :]

    def _noise(self, data: bytes) -> bytes:
        return self.random.randbytes(self.random.choice((1, 2, 4, 16, 200)))

    # --- frames -------------------------------------------------------------------------------

    def frames(self, frames: Sequence[bytes]) -> Frames:
        """Spoil a message of several frames."""
        return self.random.choice(self._of_frames)(list(frames))

    def _spoil_one(self, frames: Frames) -> Frames:
        if frames:
            at = self.random.randrange(len(frames))
            frames[at] = self.spoil(frames[at])
        return frames

    def _drop(self, frames: Frames) -> Frames:
        if frames:
            del frames[self.random.randrange(len(frames))]
        return frames

    def _double(self, frames: Frames) -> Frames:
        if frames:
            at = self.random.randrange(len(frames))
            frames.insert(at, frames[at])
        return frames

    def _swap(self, frames: Frames) -> Frames:
        if len(frames) > 1:
            a, b = self.random.sample(range(len(frames)), 2)
            frames[a], frames[b] = frames[b], frames[a]
        return frames

    def _truncate(self, frames: Frames) -> Frames:
        return frames[: self.random.randrange(len(frames) + 1)]

    def _insert(self, frames: Frames) -> Frames:
        frames.insert(self.random.randrange(len(frames) + 1), self._noise(b""))
        return frames

    def _pile(self, frames: Frames) -> Frames:
        return frames + frames * self.random.choice((1, 3, 20))

    # --- values -------------------------------------------------------------------------------

    def value(self, found: Any, chance: float = 0.3) -> Any:
        """Put other types and edges into a decoded value, anywhere in it."""
        random = self.random
        if random.random() < chance:
            return random.choice(ODD)
        if isinstance(found, dict):
            return self._members(found)
        if isinstance(found, list) and found:
            return [self.value(item, 0.2) for item in found]
        return found

    def _members(self, found: dict[Any, Any]) -> dict[Any, Any]:
        random, spoilt = self.random, dict(found)
        if spoilt:
            key = random.choice(list(spoilt))
            if random.random() < 0.2:
                del spoilt[key]
            else:
                spoilt[key] = self.value(spoilt[key], 0.7)
        if random.random() < 0.1:
            spoilt[random.choice(("", "task", "$bytes", "x" * 100))] = random.choice(ODD)
        return spoilt
