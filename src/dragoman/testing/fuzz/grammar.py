"""What all grammars share: pools of names, captured messages, the choice of mutation.

A message is one of four kinds: valid but at any time (a reply to nothing, a second hello, an answer
for another peer's job), valid with wrong types inside, valid with mutated frames, or captured from
real peers and mutated. Names come from small pools, so that messages refer to the same jobs,
workers and sessions.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from dragoman.testing.fuzz.mutations import Frames, Mutator

#: Number of job ids: few enough to repeat, and enough to differ.
_JOBS: Final = 400
#: Services that honest peers do not use.
SERVICES: Final = ("fuzz", "fuzz-b", "x", "math", "FUZZ", "fuzz/1", "sid.service.broker")
TASKS: Final = ("echo", "add", "square", "", "no_such", "list_files", "x" * 200)
#: Timeouts in seconds.
TIMEOUTS: Final[tuple[object, ...]] = (0.05, 0.2, 1, 0, -1, 1e-9, 1e9, None, "5")

#: JSON that other formats cannot hold: very long numbers, lone surrogates.
_ONLY_IN_JSON: Final = ("9" * 30, "9" * 5000, "1e999", '"\\ud800"', "-" + "8" * 20, "1" + "0" * 400)


class Grammar:
    """Makes the messages of one dialect. Subclasses fill in `kinds`."""

    #: Share of the messages with mutated frames.
    mutated = 0.25

    def __init__(self, random: Random, corpus: Sequence[Frames] = ()) -> None:
        self.random = random
        self.mutator = Mutator(random)
        self.corpus = list(corpus)
        self.jobs = [f"{random.getrandbits(128):032x}" for _ in range(_JOBS)]
        #: Functions that make a valid message. An entry that stands twice is used twice as often.
        self.kinds: Sequence[Callable[[], Frames]] = ()
        #: Whether values inside the current message are replaced.
        self.is_odd = False

    def message(self) -> Frames:
        """Return the next message."""
        way = self.random.random()
        if self.corpus and way < 0.25:
            return self._captured()
        self.is_odd = 0.25 <= way < 0.6
        frames = self.random.choice(self.kinds)()
        self.is_odd = False
        return self.mutate(frames) if way > 1 - self.mutated else frames

    def _captured(self) -> Frames:
        frames = self.random.choice(self.corpus)
        return list(frames) if self.random.random() < 0.2 else self.mutate(frames)

    def mutate(self, frames: Frames) -> Frames:
        """Mutate the frames of a message. A subclass keeps the shape that its transport needs."""
        return self.mutator.frames(frames)

    # --- words --------------------------------------------------------------------------------

    def odd(self, value: object) -> Any:
        """Return the value, or another one in its place if this message is odd."""
        return self.mutator.value(value) if self.is_odd else value

    def job(self) -> str:
        """Return a job id, usually one that was used before."""
        random = self.random
        return (
            random.choice(self.jobs) if random.random() < 0.7 else f"{random.getrandbits(128):032x}"
        )

    def service(self) -> str:
        """Return a service name."""
        return self.random.choice(SERVICES)

    def call(self) -> dict[str, object]:
        """Return a call in the form that most dialects use."""
        fields = {
            "task": self.random.choice(TASKS),
            "args": [1, "two"],
            "kwargs": {"x": 1, "y": [2.5, None]},
            "timeout": self.random.choice(TIMEOUTS),
        }
        found: dict[str, object] = self.odd(fields)
        return found

    def json(self, value: object) -> bytes:
        """Write a value as JSON, perhaps mutated."""
        text = json.dumps(self.odd(value))
        if self.is_odd and self.random.random() < 0.1:
            text = text.replace("1", self.random.choice(_ONLY_IN_JSON))
        return text.encode()


class SeedGrammar(Grammar):
    """Makes messages from the seeds of a dialect: unchanged, or with mutated frames."""

    def __init__(self, random: Random, seeds: Sequence[Frames]) -> None:
        super().__init__(random, seeds)
        self.kinds = (lambda: list(random.choice(seeds)),)


def read_vectors(folder: Path) -> list[dict[str, Any]]:
    """Read the captured messages of a dialect, if any."""
    found: list[dict[str, object]] = []
    for file in sorted(folder.glob("*.json")):
        found += json.loads(file.read_text())
    return found


def frames_of(vector: dict[str, Any]) -> Frames:
    """Return the frames of a vector; files differ in the member name."""
    if "message_hex" in vector:
        return [bytes.fromhex(vector["message_hex"])]
    return [bytes.fromhex(text) for text in vector.get("frames_hex") or vector.get("frames") or ()]
