"""Browser sessions end in time, and survive a restart."""

import stat
from pathlib import Path

import pytest

from dragoman.web.browser_sessions import (
    IDLE,
    LONGEST,
    MOST,
    SAVE_EVERY,
    BrowserSessions,
    csrf_of,
)


class WallClock:
    """A clock that is set by the test."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_a_session_ends_when_nobody_uses_it() -> None:
    clock = WallClock()
    sessions = BrowserSessions(clock)
    cookie = sessions.begin("token:a")
    clock.now += IDLE - 1
    assert sessions.find(cookie) is not None
    clock.now += IDLE + 1
    assert sessions.find(cookie) is None
    assert sessions.find("other") is None


def test_a_session_ends_however_much_it_is_used() -> None:
    clock = WallClock()
    sessions = BrowserSessions(clock)
    cookie = sessions.begin("token:a")
    for _ in range(int(LONGEST / IDLE)):
        assert sessions.find(cookie) is not None
        clock.now += IDLE
    assert sessions.find(cookie) is not None
    clock.now += 1
    assert sessions.find(cookie) is None


def test_a_session_survives_a_restart_and_its_expiry_goes_on(tmp_path: Path) -> None:
    clock, file = WallClock(), tmp_path / "sessions.json"
    cookie = BrowserSessions(clock, file).begin("token:a")
    found = BrowserSessions(clock, file).find(cookie)
    assert found is not None
    assert found.key == "token:a"
    clock.now += IDLE + 1
    assert BrowserSessions(clock, file).find(cookie) is None


def test_use_is_saved_now_and_then(tmp_path: Path) -> None:
    clock, file = WallClock(), tmp_path / "sessions.json"
    sessions = BrowserSessions(clock, file)
    cookie = sessions.begin("token:a")
    clock.now += SAVE_EVERY + 1
    assert sessions.find(cookie) is not None
    clock.now += IDLE - 1
    assert BrowserSessions(clock, file).find(cookie) is not None


@pytest.mark.parametrize("how", ["logout", "revocation"])
def test_what_has_ended_stays_ended_after_a_restart(tmp_path: Path, how: str) -> None:
    clock, file = WallClock(), tmp_path / "sessions.json"
    sessions = BrowserSessions(clock, file)
    cookie, other = sessions.begin("token:a"), sessions.begin("token:b")
    if how == "logout":
        sessions.end(cookie)
    else:
        sessions.cut("token:a")
    again = BrowserSessions(clock, file)
    assert again.find(cookie) is None
    assert again.find(other) is not None


def test_the_file_is_private_and_has_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "sessions.json"
    cookie = BrowserSessions(WallClock(), file).begin("token:a")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert cookie not in file.read_text()
    assert csrf_of(cookie) not in file.read_text()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a": {"key": 1}}'])
def test_an_unreadable_file_means_that_browsers_log_in_again(
    tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "sessions.json"
    file.write_bytes(content)
    assert BrowserSessions(WallClock(), file).find("cookie") is None


def test_without_a_folder_sessions_are_kept_in_memory(tmp_path: Path) -> None:
    sessions = BrowserSessions(WallClock(), tmp_path / "gone" / "sessions.json")
    assert sessions.find(sessions.begin("token:a")) is not None


def test_a_clock_that_was_set_back_ends_a_session() -> None:
    clock = WallClock()
    sessions = BrowserSessions(clock)
    cookie = sessions.begin("token:a")
    clock.now -= 1
    assert sessions.find(cookie) is None


def test_the_oldest_of_too_many_gives_way() -> None:
    sessions = BrowserSessions(WallClock())
    cookies = [sessions.begin("token:a") for _ in range(MOST + 1)]
    assert sessions.find(cookies[0]) is None
    assert sessions.find(cookies[1]) is not None
