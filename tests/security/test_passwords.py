"""Passwords: the slow hash, its text, and what a password must be."""

import pytest

from dragoman.security import passwords
from dragoman.security.passwords import (
    NOBODY,
    check_password,
    hash_password,
    is_password,
    is_right,
)


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "_LOG_N", 4)


def test_a_password_has_its_own_hash_and_no_other() -> None:
    stored = hash_password("correct horse", b"salt")
    assert is_right("correct horse", stored)
    assert not is_right("correct horsf", stored)
    assert not is_right("", stored)
    assert "correct" not in stored


def test_the_same_password_twice_has_two_hashes() -> None:
    assert hash_password("correct horse", b"one") != hash_password("correct horse", b"two")


def test_a_hash_of_another_cost_is_still_read(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = hash_password("correct horse", b"salt")
    monkeypatch.setattr(passwords, "_LOG_N", 5)
    assert is_right("correct horse", stored)


def test_the_cost_is_that_of_the_advice_for_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert hash_password("x", b"salt" * 4).startswith("scrypt$15$8$3$")
    assert NOBODY.startswith("scrypt$15$8$3$")


def test_letters_that_look_the_same_are_the_same() -> None:
    stored = hash_password("caf\u00e9 au lait", b"salt")
    assert is_right("cafe\u0301 au lait", stored)
    assert not is_right("lone \udcff surrogate", stored)


@pytest.mark.parametrize("stored", ["", "secret", "md5$x", "scrypt$4$8$1$c2FsdA==$"])
def test_a_text_that_is_no_hash_admits_nobody(stored: str) -> None:
    assert not is_right("", stored)


@pytest.mark.parametrize(
    "given", ["short", "x" * 1025, "aaaaaaaaaaaaaaaa", "i am anna and here", "tab\tis no letter"]
)
def test_a_poor_password_is_refused_without_being_named(given: str) -> None:
    with pytest.raises(ValueError, match="password") as refused:
        check_password(given, "anna")
    assert given not in str(refused.value)


def test_a_key_says_whether_it_is_a_password() -> None:
    assert is_password("password:abc")
    assert not is_password("token:abc")
