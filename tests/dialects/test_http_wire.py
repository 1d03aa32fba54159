"""Messages between the web application and the broker's side."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.http import wire

MESSAGES: list[wire.Message] = [
    wire.Submit("1", "j", "s", "t", "all", 2.0, 3, "k"),
    wire.Ask("j"),
    wire.Cancel("j"),
    wire.Input("1", "j", "w"),
    wire.Subscribe("n", ("a.*",), 7),
    wire.Join("1", "w", ("s",), 2, {"a": "b"}, ("r",), ("j",), 60.0),
    wire.Beat(),
    wire.Report("1", "j", 2, "final", "task_failed", "no"),
    wire.Forward("1", "j", 1, "s", "t"),
    wire.Publish("1", "topic"),
    wire.Leave("bye"),
    wire.Heard("1", "taken"),
    wire.Told("j", "final", "s", "w", ("w",), "failed", "task_failed", "no"),
    wire.Standing("result", "j", "j", "running", shares=(wire.Share("w", "running", 1),)),
    wire.Event("n", 4, "broker.ended", "j"),
    wire.Work("j", 1, "s", "c", 3.5),
    wire.Stop("j", 1),
    wire.Given("j"),
    wire.Dismissed("why"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_every_message_comes_back_as_it_was_with_its_parts(message: wire.Message) -> None:
    assert wire.decode(wire.encode(message, [b"one", b""])) == (message, (b"one", b""))


@given(st.lists(st.binary()))
def test_garbage_is_malformed_and_nothing_else(frames: list[bytes]) -> None:
    with pytest.raises(MalformedMessage):
        wire.decode(frames)


@pytest.mark.parametrize("head", [b'{"kind":"submit"}', b'{"kind":"who"}', b"[1]", b"[" * 90_000])
def test_what_lacks_something_is_malformed(head: bytes) -> None:
    with pytest.raises(MalformedMessage):
        wire.decode([head])
