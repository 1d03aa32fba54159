"""Logins with a password: the same way for every name, few hashes at a time, all on record."""

import asyncio
import threading
from pathlib import Path

import pytest

from dragoman.model.names import Principal
from dragoman.security.passwords import NOBODY
from dragoman.security.registry import KeyRegistry
from dragoman.server.password_logins import MOST_WAITING, PasswordLogins

NOW = 1_700_000_000.0


class Scene:
    """A registry in which `right` is the hash of the password `right`."""

    def __init__(self, path: Path) -> None:
        self.registry = KeyRegistry.open(path / "registry.json")
        self.key = self.registry.set_password("anna", "right", now=NOW)
        self.reports: list[tuple[bool, str, Principal | None]] = []
        self.compared: list[tuple[str, str]] = []
        self.now = NOW
        self.logins = PasswordLogins(
            self.registry,
            lambda: None,
            lambda: self.now,
            lambda *report: self.reports.append(report),
            self._compare,
        )

    def _compare(self, password: str, stored: str) -> bool:
        self.compared.append((password, stored))
        return password == stored

    def log_in(self, name: str, password: str, address: str = "10.0.0.1") -> tuple[str, float]:
        return asyncio.run(self.logins.check(name, password, address))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_the_right_password_gives_the_key_of_its_principal(scene: Scene) -> None:
    assert scene.log_in("anna", "right") == (scene.key, 0.0)
    assert scene.registry.principal_of(scene.key) == "anna"
    assert scene.reports == [(True, "login with a password from 10.0.0.1", Principal("anna"))]


def test_an_unknown_name_takes_the_way_of_a_wrong_password(scene: Scene) -> None:
    assert scene.log_in("anna", "wrong") == scene.log_in("nobody", "wrong") == ("", 0.0)
    assert scene.compared == [("wrong", "right"), ("wrong", NOBODY)]
    known, unknown = scene.reports
    assert known[:2] == unknown[:2]
    assert (known[2], unknown[2]) == ("anna", None)
    assert "nobody" not in unknown[1]


def test_a_revoked_or_expired_password_is_a_wrong_one(scene: Scene) -> None:
    scene.registry.expire(scene.key, NOW + 10)
    scene.now = NOW + 11
    assert not scene.logins.is_on
    assert scene.log_in("anna", "right") == ("", 0.0)
    assert scene.compared == [("right", NOBODY)]


def test_a_password_that_is_revoked_while_it_is_checked_does_not_log_in(scene: Scene) -> None:
    def revoked(password: str, stored: str) -> bool:
        scene.registry.revoke("anna")
        return True

    scene.logins._compare = revoked
    assert scene.log_in("anna", "right") == ("", 0.0)


def test_after_too_many_failures_not_even_the_right_password_is_looked_at(scene: Scene) -> None:
    for number in range(10):
        scene.log_in("anna", "wrong", f"10.0.1.{number}")
    looked = len(scene.compared)
    key, wait = scene.log_in("anna", "right")
    assert (key, wait, len(scene.compared)) == ("", 30.0, looked)
    assert "too many failed logins" in scene.reports[-1][1]
    scene.now += wait
    assert scene.log_in("anna", "right") == (scene.key, 0.0)


def test_few_hashes_wait_and_one_runs(scene: Scene) -> None:
    may_end, running = threading.Event(), []

    def slow(password: str, stored: str) -> bool:
        running.append(password)
        assert len(running) == 1
        may_end.wait(20)
        running.remove(password)
        return False

    async def flood() -> list[tuple[str, float]]:
        scene.logins._compare = slow
        names = [f"user{n}" for n in range(MOST_WAITING + 3)]
        tries = [
            asyncio.create_task(scene.logins.check(name, "x", f"10.0.0.{n}"))
            for n, name in enumerate(names)
        ]
        refused, _ = await asyncio.wait(tries, return_when=asyncio.FIRST_COMPLETED)
        assert len(refused) == 3
        tries[1].cancel()
        may_end.set()
        found = await asyncio.gather(*tries, return_exceptions=True)
        return [each for each in found if not isinstance(each, BaseException)]

    found = asyncio.run(flood())
    assert sorted(found) == [("", 0.0)] * (MOST_WAITING - 1) + [("", 2.0)] * 3


def test_a_new_password_is_another_key_and_the_old_one_is_gone(scene: Scene) -> None:
    new = scene.registry.set_password("anna", "newer", now=NOW)
    assert new != scene.key
    assert not scene.registry.admits(scene.key, NOW)
    assert scene.log_in("anna", "right") == ("", 0.0)
    assert scene.log_in("anna", "newer") == (new, 0.0)
