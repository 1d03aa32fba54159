"""Mutates messages: bits, lengths, frames, order, and types inside encoded values.

All choices come from the given random source: the same seed gives the same mutations.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

Frames = list[bytes]

#: Edge cases of every type.
ODD: Final[tuple[object, ...]] = (
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
#: Extreme lengths and counts of binary encodings.
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
    """Mutates bytes, frames and values."""

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
            self._mutate_one,
            self._mutate_one,
            self._mutate_one,
            self._drop,
            self._double,
            self._swap,
            self._truncate,
            self._insert,
            self._pile,
        )

    # --- bytes --------------------------------------------------------------------------------

    def mutate(self, data: bytes) -> bytes:
        """Mutate some bytes."""
        return self.random.choice(self._of_bytes)(data)

    def _flip(self, data: bytes) -> bytes:
        if not data:
            return b"\x01"
        mutated = bytearray(data)
        for _ in range(self.random.choice((1, 1, 2, 8))):
            mutated[self.random.randrange(len(mutated))] ^= 1 << self.random.randrange(8)
        return bytes(mutated)

    def _cut(self, data: bytes) -> bytes:
        return data[: self.random.randrange(len(data) + 1)]

    def _grow(self, data: bytes) -> bytes:
        return data + self.random.randbytes(self.random.choice((1, 4, 64, 500)))

    def _splice(self, data: bytes) -> bytes:
        """Copy a piece of the bytes over another."""
        if len(data) < 4:
            return data * 2
        at, to = self.random.randrange(len(data)), self.random.randrange(len(data))
        return data[:to] + data[at : at + 16] + data[to + 8 :]

    def _count(self, data: bytes) -> bytes:
        """Insert a very large length or count."""
        at = self.random.randrange(len(data) + 1)
        worst = self.random.choice(_COUNTS)
        return data[:at] + worst + data[at + len(worst) :]

    def _noise(self, data: bytes) -> bytes:
        return self.random.randbytes(self.random.choice((1, 2, 4, 16, 200)))

    # --- frames -------------------------------------------------------------------------------

    def frames(self, frames: Sequence[bytes]) -> Frames:
        """Mutate a message of several frames."""
        return self.random.choice(self._of_frames)(list(frames))

    def _mutate_one(self, frames: Frames) -> Frames:
        if frames:
            at = self.random.randrange(len(frames))
            frames[at] = self.mutate(frames[at])
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

    def value(self, found: object, chance: float = 0.3) -> Any:
        """Replace parts of a decoded value with other types and edge cases."""
        random = self.random
        if random.random() < chance:
            return random.choice(ODD)
        if isinstance(found, dict):
            return self._members(found)
        if isinstance(found, list) and found:
            return [self.value(item, 0.2) for item in found]
        return found

    def _members(self, found: dict[object, object]) -> dict[object, object]:
        random, mutated = self.random, dict(found)
        if mutated:
            key = random.choice(list(mutated))
            if random.random() < 0.2:
                del mutated[key]
            else:
                mutated[key] = self.value(mutated[key], 0.7)
        if random.random() < 0.1:
            mutated[random.choice(("", "task", "$bytes", "x" * 100))] = random.choice(ODD)
        return mutated
