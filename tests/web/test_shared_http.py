"""The HTTP link of a namespace that has no listener."""

import asyncio

from dragoman.dialects.http.settings import HttpSettings
from dragoman.web.browser_sessions import BrowserSessions
from dragoman.web.http_transport import HttpTransport
from dragoman.web.identity import Checks
from dragoman.web.shared_http import SharedHttpTransport


class RecordingPlace:
    """Remembers who joined."""

    def __init__(self) -> None:
        self.members: list[HttpTransport] = []
        self.cuts: list[str] = []

    def join(self, member: HttpTransport) -> str:
        self.members.append(member)
        return "https://127.0.0.1:8420"

    def leave(self, member: HttpTransport) -> None:
        self.members.remove(member)

    def cut(self, key: str) -> None:
        self.cuts.append(key)


def test_it_joins_the_listener_and_leaves_it_again() -> None:
    async def scene() -> None:
        place, sessions = RecordingPlace(), BrowserSessions(lambda: 1000.0)
        checks = Checks(lambda secret: None, lambda key: True)
        transport = SharedHttpTransport(place, HttpSettings(), lambda: "id", checks, sessions)
        assert await transport.open(lambda: None) == "https://127.0.0.1:8420"
        assert place.members == [transport]
        assert transport.background_tasks() == []
        cookie = sessions.begin("key")
        transport.cut("key")
        assert sessions.find(cookie) is None
        assert place.cuts == ["key"]
        await transport.close()
        assert place.members == []

    asyncio.run(scene())
