"""The HTTP link of a namespace without a listener of its own.

The listener of the default namespace passes on the requests of its keys.
"""

from collections.abc import Callable
from typing import Protocol

from dragoman.dialects.http.settings import HttpSettings
from dragoman.transports.base import Key
from dragoman.web.broker_connection import WebBrokerConnection
from dragoman.web.browser_sessions import BrowserSessions
from dragoman.web.http_transport import HttpTransport
from dragoman.web.identity import Checks


class SharedHttpEndpoint(Protocol):
    """The HTTP listener of the default namespace."""

    def join(self, member: HttpTransport) -> str:
        """Have the requests of our keys passed on; return the endpoint."""
        ...

    def leave(self, member: HttpTransport) -> None:
        """End that."""
        ...

    def cut(self, key: Key) -> None:
        """Close every connection on which a key was proven."""
        ...


class SharedHttpTransport(HttpTransport):
    """Serves requests that another transport has read."""

    def __init__(
        self,
        place: SharedHttpEndpoint,
        settings: HttpSettings,
        new_id: Callable[[], str],
        checks: Checks,
        sessions: BrowserSessions,
    ) -> None:
        super().__init__("", settings, new_id, checks=checks, sessions=sessions)
        self._place_at_listener = place

    async def open(self, wake: Callable[[], None]) -> str:
        """Join the listener."""
        await WebBrokerConnection.open(self, wake)
        return self._place_at_listener.join(self)

    async def close(self) -> None:
        """Leave the listener, and answer the waiting requests."""
        self._place_at_listener.leave(self)
        await super().close()

    def cut(self, key: Key) -> None:
        """Close every connection on which a key was proven, and end its sessions."""
        super().cut(key)
        self._place_at_listener.cut(key)
