"""What every dialect's grammar has in common: pools of names, captured messages, what to spoil.

A message is made in one of four ways: well-formed but at any time (a reply to nothing, a second
hello, an answer for a stranger's job), well-formed with wrong types inside, well-formed with spoilt
frames, or one that was captured from running peers and then spoilt. Names come from small pools,
so that messages meet: the same job twice, a worker that comes back, somebody else's session.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from dragoman.testing.fuzz.mutations import Frames, Mutator

#: How many names there are of each kind: few, so that they meet, and enough to differ.
_JOBS: Final = 400
#: Services nobody honest offers or asks for.
SERVICES: Final = ("fuzz", "fuzz-b", "x", "math", "FUZZ", "fuzz/1", "sid.service.broker")
TASKS: Final = ("echo", "add", "square", "", "no_such", "list_files", "x" * 200)
#: Seconds, as peers say them.
TIMEOUTS: Final[tuple[Any, ...]] = (0.05, 0.2, 1, 0, -1, 1e-9, 1e9, None, "5")

#: What JSON can write and little else can: numbers of any length, half a character.
_ONLY_IN_JSON: Final = ("9" * 30, "9" * 5000, "1e999", '"\\ud800"', "-" + "8" * 20, "1" + "0" * 400)


class Grammar:
    """Makes the messages of one dialect. A dialect's own grammar fills in `kinds`."""

    #: Which share of the messages has its frames spoilt.
    spoilt = 0.25

    def __init__(self, random: Random, corpus: Sequence[Frames] = ()) -> None:
        self.random = random
        self.mutator = Mutator(random)
        self.corpus = list(corpus)
        self.jobs = [f"{random.getrandbits(128):032x}" for _ in range(_JOBS)]
        #: Ways to make a well-formed message. Those said twice are made twice as often.
        self.kinds: Sequence[Callable[[], Frames]] = ()
        #: Whether the values inside of the message at hand are to be spoilt.
        self.is_odd = False

    def message(self) -> Frames:
        """Make the next message."""
        way = self.random.random()
        if self.corpus and way < 0.25:
            return self._captured()
        self.is_odd = 0.25 <= way < 0.6
        frames = self.random.choice(self.kinds)()
        self.is_odd = False
        return self.spoil(frames) if way > 1 - self.spoilt else frames

    def _captured(self) -> Frames:
        frames = self.random.choice(self.corpus)
        return list(frames) if self.random.random() < 0.2 else self.spoil(frames)

    def spoil(self, frames: Frames) -> Frames:
        """Spoil the frames of a message; some transports need them to stay in shape."""
        return self.mutator.frames(frames)

    # --- words --------------------------------------------------------------------------------

    def odd(self, value: Any) -> Any:
        """Return what a well-formed message would say here, or something else in its place."""
        return self.mutator.value(value) if self.is_odd else value

    def job(self) -> str:
        """Name a job, most often one that was named before."""
        random = self.random
        return (
            random.choice(self.jobs) if random.random() < 0.7 else f"{random.getrandbits(128):032x}"
        )

    def service(self) -> str:
        """Name a service."""
        return self.random.choice(SERVICES)

    def call(self) -> dict[str, Any]:
        """Say a call, as most dialects have it."""
        said = {
            "task": self.random.choice(TASKS),
            "args": [1, "two"],
            "kwargs": {"x": 1, "y": [2.5, None]},
            "timeout": self.random.choice(TIMEOUTS),
        }
        found: dict[str, Any] = self.odd(said)
        return found

    def json(self, value: Any) -> bytes:
        """Write JSON of a value that may be spoilt."""
        text = json.dumps(self.odd(value))
        if self.is_odd and self.random.random() < 0.1:
            text = text.replace("1", self.random.choice(_ONLY_IN_JSON))
        return text.encode()


def read_vectors(folder: Path) -> list[dict[str, Any]]:
    """Read the captured messages of a dialect; none if there are none."""
    found: list[dict[str, Any]] = []
    for file in sorted(folder.glob("*.json")):
        found += json.loads(file.read_text())
    return found


def frames_of(vector: dict[str, Any]) -> Frames:
    """Return a vector's frames, whatever its file calls them."""
    if "message_hex" in vector:
        return [bytes.fromhex(vector["message_hex"])]
    return [bytes.fromhex(text) for text in vector.get("frames_hex") or vector.get("frames") or ()]
