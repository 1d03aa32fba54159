"""What the grammars share, and that each makes almost valid messages."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.dcp import wire as dcp
from dragoman.dialects.mdp import wire as mdp
from dragoman.dialects.memo01 import wire as memo01
from dragoman.dialects.ncl import wire as ncl
from dragoman.dialects.nfp import wire as nfp
from dragoman.dialects.zss import wire as zss
from dragoman.testing.fuzz.attack import ATTACK_TARGETS
from dragoman.testing.fuzz.grammar import Grammar, frames_of, read_vectors
from dragoman.testing.fuzz.http import HttpGrammar

VECTORS = Path(__file__).parents[1] / "vectors"
DECODERS: dict[str, Callable[[list[bytes]], Any]] = {
    "nfp": nfp.decode,
    "dcp": dcp.decode,
    "mdp": mdp.decode,
    "zss": zss.decode,
    "zss_backend": zss.decode,
    "memo": lambda frames: memo01.decode(frames[0]),
    "nats": lambda frames: ncl.decode(frames[1]),
}


def messages(grammar: Grammar, count: int = 600) -> list[list[bytes]]:
    return [grammar.message() for _ in range(count)]


@pytest.mark.parametrize("link", ATTACK_TARGETS)
def test_the_same_seed_makes_the_same_messages(link: str) -> None:
    make = ATTACK_TARGETS[link].grammar
    one, two = (messages(make(Random(3), VECTORS)) for _ in range(2))
    assert one == two
    assert one != messages(make(Random(4), VECTORS))


@pytest.mark.parametrize("link", DECODERS)
def test_many_messages_can_be_read_and_many_cannot(link: str) -> None:
    def is_readable(frames: list[bytes]) -> bool:
        try:
            DECODERS[link](frames)
        except MalformedMessage:
            return False
        return True

    found = [is_readable(f) for f in messages(ATTACK_TARGETS[link].grammar(Random(1), VECTORS))]
    assert 0.2 < sum(found) / len(found) < 0.97


@pytest.mark.parametrize("link", [link for link in DECODERS if link != "mdp"])
def test_captured_messages_are_among_them(link: str) -> None:
    with_them = ATTACK_TARGETS[link].grammar(Random(1), VECTORS)
    assert with_them.corpus
    assert not ATTACK_TARGETS[link].grammar(Random(1), None).corpus
    captured = {tuple(frames) for frames in with_them.corpus}
    assert any(tuple(frames) in captured for frames in messages(with_them))


def test_requests_that_end_their_connection_are_marked_and_few() -> None:
    found = messages(HttpGrammar(Random(1)))
    last = [frames for frames in found if len(frames) > 1]
    assert 0 < len(last) < len(found) / 5
    assert all(frames[0].count(b" HTTP/1.1\r\nHost") == 1 for frames in found if len(frames) == 1)


def test_vectors_are_read_whatever_their_file_calls_them(tmp_path: Path) -> None:
    fields = [{"frames": ["00", "01"]}, {"frames_hex": ["02"]}, {"message_hex": "03"}, {}]
    (tmp_path / "some.json").write_text(json.dumps(fields))
    found = [frames_of(v) for v in read_vectors(tmp_path)]
    assert found == [[b"\x00", b"\x01"], [b"\x02"], [b"\x03"], []]
    assert read_vectors(tmp_path / "none") == []
