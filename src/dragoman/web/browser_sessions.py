"""Sessions of logged-in browsers. They survive a restart of the broker, if they have a file.

The file holds no secret: of a cookie it has only the hash, and the CSRF token is made from the
cookie. It is written at a login and a logout, and now and then while a session is used.
"""

import contextlib
import os
import secrets
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from dragoman.model.value import value

#: Most sessions kept; longest time unused and longest time in all, in seconds.
MOST: Final = 1000
IDLE: Final = 3600.0
LONGEST: Final = 12 * 3600.0
#: Seconds of use that a crash may forget.
SAVE_EVERY: Final = 300.0


@value
class BrowserSession:
    """A logged-in browser."""

    key: str
    began_at: float
    used_at: float

    def lasts(self, now: float) -> bool:
        """Tell whether the session has not expired. A clock that was set back ends it."""
        return 0 <= now - self.began_at <= LONGEST and now - self.used_at <= IDLE


class BrowserSessions:
    """All browser sessions, by the hashes of their cookies."""

    def __init__(self, now: Callable[[], float], file: Path | None = None) -> None:
        """Read the sessions of an earlier process. `now` is the wall clock."""
        self._now = now
        self._file = file
        self._saved_at = now()
        self._sessions = OrderedDict(_read(file, now()))

    def begin(self, key: str) -> str:
        """Begin a session; return its cookie."""
        cookie, now = secrets.token_urlsafe(32), self._now()
        self._sessions[_hashed(cookie)] = BrowserSession(key, now, now)
        if len(self._sessions) > MOST:
            self._sessions.popitem(last=False)
        self.save()
        return cookie

    def find(self, cookie: str) -> BrowserSession | None:
        """Return the session of a cookie; None if it has ended."""
        id_, now = _hashed(cookie), self._now()
        session = self._sessions.pop(id_, None)
        if session is None or not session.lasts(now):
            return None
        session = BrowserSession(session.key, session.began_at, now)
        self._sessions[id_] = session
        if now - self._saved_at > SAVE_EVERY:
            self.save()
        return session

    def end(self, cookie: str) -> None:
        """End the session of a cookie."""
        if self._sessions.pop(_hashed(cookie), None) is not None:
            self.save()

    def cut(self, key: str) -> None:
        """End every session of a key."""
        left = OrderedDict((i, s) for i, s in self._sessions.items() if s.key != key)
        if len(left) < len(self._sessions):
            self._sessions = left
            self.save()

    def save(self) -> None:
        """Write the file. If it cannot be written, sessions end with the process, as without."""
        self._saved_at = self._now()
        if self._file is None:
            return
        new = self._file.with_name(f"{self._file.name}.new")
        with contextlib.suppress(OSError):
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(self._sessions))
            new.replace(self._file)


def csrf_of(cookie: str) -> str:
    """Return the CSRF token of a session. It does not tell the cookie."""
    return sha256(f"csrf {cookie}".encode()).hexdigest()


def _hashed(cookie: str) -> str:
    return sha256(cookie.encode()).hexdigest()


def _read(file: Path | None, now: float) -> dict[str, BrowserSession]:
    """Read the sessions that last. A missing or unreadable file has none: browsers log in again."""
    if file is None:
        return {}
    try:
        found = msgspec.json.decode(file.read_bytes(), type=dict[str, BrowserSession])
    except (OSError, msgspec.DecodeError):
        return {}
    return {id_: each for id_, each in found.items() if each.lasts(now)}
