"""The broker side without a wire."""

from dragoman.core.effects import Dismiss, SendBeat, SendReply
from dragoman.core.events import ReplyKind, TimeAdvanced
from dragoman.model.names import JobId, PeerId, ServiceName
from dragoman.testing.pass_through_side import PassThroughSide


def test_events_come_in_and_effects_go_out_as_they_are() -> None:
    side = PassThroughSide()
    event = TimeAdvanced()
    assert side.receive("w1", event, 0.0) == [event]
    reply = SendReply(PeerId("local/c1"), JobId("j"), ReplyKind.QUEUED, ServiceName("a"))
    for effect, name in ((reply, "c1"), (SendBeat(PeerId("local/w1")), "w1"),
                         (Dismiss(PeerId("local/w2"), "bye"), "w2")):  # fmt: skip
        [send] = side.render(effect, 0.0)
        assert [send.address, send.frames] == [name, effect]


def test_it_has_no_time_of_its_own() -> None:
    side = PassThroughSide()
    assert side.next_deadline() is None
    assert side.advance(0.0) == []
