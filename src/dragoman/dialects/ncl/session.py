"""A compute node's control plane: handshake, heartbeats, node-info updates, shutdown notice.

    state           on                                        then
    -----           --                                        ----
    DISCONNECTED    attempt is due                            handshake sent, CONNECTING
    CONNECTING      accepted                                  CONNECTED, data plane opened
    CONNECTING      refused, failed, no answer in time        DISCONNECTED, wait doubles
    CONNECTED       heartbeat is due                          heartbeat sent
    CONNECTED       "handshake required"                      DISCONNECTED, next attempt at once
    CONNECTED       no good heartbeat for the miss factor     DISCONNECTED, next attempt at once
    any             leave                                     shutdown notice, LEFT

Each request has a reply subject of its own. An answer or a timeout settles it.
"""

from collections.abc import Callable
from typing import Final

from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.ncl import wire
from dragoman.dialects.ncl.control import HANDSHAKE_REQUIRED, is_same_node
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
from dragoman.dialects.ncl.settings import ComputeSettings
from dragoman.dialects.ncl.times import time_text

DISCONNECTED: Final = "disconnected"
CONNECTING: Final = "connecting"
CONNECTED: Final = "connected"
LEFT: Final = "left"


class NodeSession:
    """The control plane of one node. `describe` returns its current node info."""

    def __init__(
        self,
        node: str,
        settings: ComputeSettings,
        describe: Callable[[], NodeInfo],
        started_at: float,
    ) -> None:
        self._node = node
        self._settings = settings
        self._describe = describe
        self._started_at = started_at
        self.state = DISCONNECTED
        #: Why the last attempt or session ended.
        self.last_error = ""
        #: Why the orchestrator refused the last handshake; empty if it did not.
        self.refusal = ""
        self._failures = 0
        self._attempt_at = 0.0
        self._heartbeat_at = 0.0
        self._info_check_at = 0.0
        self._last_good_at = 0.0
        self._accepted: NodeInfo | None = None
        #: Token -> (request, time limit of its answer).
        self._pending: dict[str, tuple[WireObject, float]] = {}
        self._requests_sent = 0

    # --- requests -------------------------------------------------------------------------------

    def join(self, received: int, now: float) -> list[tuple[str, WireObject]]:
        """Send a handshake now, whatever the state."""
        self._pending.clear()
        self.state = CONNECTING
        info = self._describe()
        request = HandshakeRequest(info, time_text(self._started_at), received)
        return [self._request(request, now)]

    def leave(self, received: int, now: float) -> list[tuple[str, WireObject]]:
        """Send a shutdown notice if connected."""
        was_connected, self.state = self.state == CONNECTED, LEFT
        if not was_connected:
            return []
        return [self._request(ShutdownNoticeRequest(self._node, "", received), now)]

    def tick(
        self, received: int, free: Resources, queued: Resources, now: float
    ) -> list[tuple[str, WireObject]]:
        """Time out pending requests, then send whatever is due."""
        for token in [t for t, (_, until) in self._pending.items() if now >= until]:
            self._failed(self._pending.pop(token)[0], "request timed out", now)
        if self.state == DISCONNECTED and now >= self._attempt_at:
            return self.join(received, now)
        if self.state != CONNECTED:
            return []
        silence = self._settings.heartbeat_interval * self._settings.heartbeat_miss_factor
        if now >= self._last_good_at + silence:
            self._disconnect("no good heartbeat", now)
            return self.join(received, now)
        return [*self._heartbeat(received, free, queued, now), *self._update_info(now)]

    def retry_now(self, now: float) -> None:
        """Make the next tick send a handshake or heartbeat."""
        self._attempt_at = self._heartbeat_at = now

    def _heartbeat(
        self, received: int, free: Resources, queued: Resources, now: float
    ) -> list[tuple[str, WireObject]]:
        if now < self._heartbeat_at:
            return []
        self._heartbeat_at = now + self._settings.heartbeat_interval
        return [self._request(HeartbeatRequest(self._node, free, queued, received), now)]

    def _update_info(self, now: float) -> list[tuple[str, WireObject]]:
        """Send the node info if it differs from what the orchestrator last accepted."""
        if now < self._info_check_at:
            return []
        info = self._describe()
        if self._accepted is not None and is_same_node(info, self._accepted):
            return []
        # A lost or refused update is repeated after this time.
        self._info_check_at = now + self._settings.info_update_interval
        return [self._request(UpdateNodeInfoRequest(info), now)]

    def _request(self, request: WireObject, now: float) -> tuple[str, WireObject]:
        self._requests_sent += 1
        token = f"r{self._requests_sent}"
        self._pending[token] = (request, now + self._settings.request_timeout)
        return token, request

    # --- answers --------------------------------------------------------------------------------

    def answered(self, token: str, body: bytes, now: float) -> HandshakeResponse | None:
        """Handle an answer. Returns an accepted handshake response, which opens the data plane."""
        found = self._pending.pop(token, None)
        if found is None:
            return None
        request = found[0]
        try:
            payload = wire.decode(body).payload
        except MalformedMessage as error:
            self._failed(request, str(error) if body else "no orchestrator is subscribed", now)
            return None
        if isinstance(payload, BacError):
            self._refused(request, payload, now)
            return None
        return self._answered(request, payload, now)

    def _answered(
        self, request: WireObject, payload: WireObject, now: float
    ) -> HandshakeResponse | None:
        if isinstance(request, HandshakeRequest) and isinstance(payload, HandshakeResponse):
            return self._handshake_answered(request, payload, now)
        if isinstance(request, HeartbeatRequest) and isinstance(payload, HeartbeatResponse):
            self._last_good_at = now
        if isinstance(request, UpdateNodeInfoRequest) and (
            isinstance(payload, UpdateNodeInfoResponse) and payload.accepted
        ):
            self._accepted, self._info_check_at = request.NodeInfo, now
        return None

    def _handshake_answered(
        self, request: HandshakeRequest, response: HandshakeResponse, now: float
    ) -> HandshakeResponse | None:
        self.refusal = "" if response.accepted else response.reason or "refused"
        if not response.accepted:
            self._failed(request, response.reason or "refused", now)
            return None
        self.state, self.last_error, self._failures = CONNECTED, "", 0
        self._accepted = request.NodeInfo
        self._last_good_at = now
        self._heartbeat_at = self._info_check_at = now
        return response

    def _refused(self, request: WireObject, error: BacError, now: float) -> None:
        if error.Code == HANDSHAKE_REQUIRED and self.state == CONNECTED:
            self._disconnect(error.Cause, now)
        else:
            self._failed(request, error.Cause, now)

    def _failed(self, request: WireObject, reason: str, now: float) -> None:
        """Note a failure. Only a failed handshake delays the next attempt."""
        self.last_error = reason
        if isinstance(request, HandshakeRequest) and self.state == CONNECTING:
            settings = self._settings
            wait = min(settings.reconnect_interval * 2**self._failures, settings.reconnect_max)
            self._failures = min(self._failures + 1, 32)
            self.state, self._attempt_at = DISCONNECTED, now + wait

    def _disconnect(self, reason: str, now: float) -> None:
        self.state, self.last_error = DISCONNECTED, reason
        self._attempt_at, self._failures = now, 0
        self._pending.clear()
