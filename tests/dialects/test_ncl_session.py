"""A compute node's control plane, request by request."""

import pytest

from dragoman.dialects.ncl import wire
from dragoman.dialects.ncl.control import handshake_required
from dragoman.dialects.ncl.messages import (
    BacError,
    HandshakeRequest,
    HandshakeResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    ShutdownNoticeRequest,
    UpdateNodeInfoRequest,
    UpdateNodeInfoResponse,
)
from dragoman.dialects.ncl.models import NodeInfo, Resources, WireObject
from dragoman.dialects.ncl.session import CONNECTED, CONNECTING, DISCONNECTED, LEFT, NodeSession
from dragoman.dialects.ncl.settings import ComputeSettings

NONE = Resources()


class Story:
    """A session with a clock, and the node it describes."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.info = NodeInfo("n-1", "Compute", {"zone": "eu"})
        self.session = NodeSession("n-1", ComputeSettings(), self.describe, 1000.0)
        self.asked: list[tuple[str, WireObject]] = []

    def describe(self) -> NodeInfo:
        return NodeInfo("n-1", "Compute", dict(self.info.Labels or {}))

    def tick(self, after: float = 0.0) -> list[type[WireObject]]:
        self.now += after
        self.asked = self.session.tick(7, NONE, NONE, self.now)
        return [type(payload) for _, payload in self.asked]

    def join(self) -> None:
        self.asked = self.session.join(7, self.now)

    def answer(self, payload: WireObject | None) -> HandshakeResponse | None:
        """Answer the last request; None: no responders."""
        token, _ = self.asked[-1]
        data = b""
        if payload is not None:
            data = wire.encode(payload, wire.metadata(payload, "o", self.now))
        return self.session.answered(token, data, self.now)

    def connected(self) -> "Story":
        self.join()
        assert self.answer(HandshakeResponse(True, "node registered", 0, 3)) is not None
        return self


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_handshake_tells_who_and_how_far(story: Story) -> None:
    story.join()
    ((_, request),) = story.asked
    assert isinstance(request, HandshakeRequest)
    assert (request.NodeInfo.NodeID, request.LastOrchestratorSeqNum) == ("n-1", 7)
    assert request.StartTime == "1970-01-01T00:16:40Z"
    assert story.session.state == CONNECTING


def test_the_first_heartbeat_follows_the_handshake_at_once(story: Story) -> None:
    story.connected()
    assert story.session.state == CONNECTED
    assert story.tick() == [HeartbeatRequest]
    story.answer(HeartbeatResponse())
    assert story.tick(14.9) == []
    assert story.tick(0.1) == [HeartbeatRequest]


def test_failed_handshakes_wait_longer_each_time(story: Story) -> None:
    story.join()
    waits = []
    for _ in range(4):
        story.answer(None)
        assert story.session.state == DISCONNECTED
        waited = 0
        while not story.tick(1.0):
            waited += 1
        waits.append(waited + 1)
    assert waits == [10, 20, 30, 30]
    assert story.session.last_error == "no orchestrator is subscribed"


def test_a_refusal_is_a_failed_handshake_with_a_reason(story: Story) -> None:
    story.join()
    assert story.answer(HandshakeResponse(False, "node has been rejected")) is None
    assert story.session.last_error == "node has been rejected"
    assert story.tick(9.9) == []
    assert story.tick(0.1) == [HandshakeRequest]


def test_an_answer_that_never_comes_is_a_failure(story: Story) -> None:
    story.join()
    assert story.tick(9.9) == []
    assert story.session.state == CONNECTING
    story.tick(0.1)
    assert story.session.state == DISCONNECTED


def test_handshake_required_means_a_new_one_at_once(story: Story) -> None:
    story.connected()
    story.tick(15)
    story.answer(handshake_required("n-1"))
    assert story.session.state == DISCONNECTED
    assert story.tick(0) == [HandshakeRequest]


def test_another_error_is_only_noted(story: Story) -> None:
    story.connected()
    story.tick(15)
    story.answer(BacError(Cause="concurrent modification detected", Code="ConcurrentUpdate"))
    assert story.session.state == CONNECTED
    assert story.session.last_error == "concurrent modification detected"


def test_five_silent_intervals_end_the_session(story: Story) -> None:
    story.connected()
    for _ in range(74):
        story.tick(1)
        assert story.session.state == CONNECTED
    assert story.tick(1) == [HandshakeRequest]


def test_a_real_change_is_sent_again_until_it_is_accepted(story: Story) -> None:
    story.connected()
    assert story.tick() == [HeartbeatRequest]
    story.answer(HeartbeatResponse())
    story.info = NodeInfo("n-1", "Compute", {"zone": "us"})
    assert story.tick(1) == [UpdateNodeInfoRequest]
    story.answer(UpdateNodeInfoResponse(False, "not now"))
    for _ in range(3):
        assert story.tick(15) == [HeartbeatRequest]
        story.answer(HeartbeatResponse())
    assert UpdateNodeInfoRequest in story.tick(15)
    story.answer(UpdateNodeInfoResponse(True))
    for _ in range(10):
        assert UpdateNodeInfoRequest not in story.tick(15)
        story.answer(HeartbeatResponse())


def test_a_change_right_after_an_accepted_one_is_sent_at_once(story: Story) -> None:
    story.connected()
    story.tick()
    story.answer(HeartbeatResponse())
    for zone in ("us", "eu"):
        story.info = NodeInfo("n-1", "Compute", {"zone": zone})
        assert story.tick(1) == [UpdateNodeInfoRequest]
        story.answer(UpdateNodeInfoResponse(True))


def test_a_heartbeat_does_not_hide_a_change(story: Story) -> None:
    story.connected()
    story.info = NodeInfo("n-1", "Compute", {"zone": "us"})
    assert story.tick() == [HeartbeatRequest, UpdateNodeInfoRequest]
    assert story.answer(None) is None
    for _ in range(3):
        assert story.tick(15) == [HeartbeatRequest]
        story.answer(HeartbeatResponse())
    assert UpdateNodeInfoRequest in story.tick(15)


def test_a_goodbye_is_said_only_in_a_session(story: Story) -> None:
    assert story.session.leave(7, story.now) == []
    story = Story().connected()
    ((_, notice),) = story.session.leave(7, story.now)
    assert notice == ShutdownNoticeRequest("n-1", "", 7)
    assert story.session.state == LEFT
    assert story.tick(1000) == []


def test_an_answer_to_nothing_is_nothing(story: Story) -> None:
    assert story.session.answered("r99", b"", story.now) is None


def test_a_new_connection_makes_it_beat_at_once(story: Story) -> None:
    story.connected()
    story.session.retry_now(story.now)
    assert story.tick(0) == [HeartbeatRequest]
    waiting = Story()
    waiting.join()
    waiting.answer(None)
    waiting.session.retry_now(waiting.now)
    assert waiting.tick(0) == [HandshakeRequest]
