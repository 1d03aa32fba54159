"""Secrets are recognised by their key or as a reference, and masked."""

from pathlib import Path

import pytest

from dragoman.services.masks import (
    MASK,
    SecretNotFound,
    bare_secrets,
    has_secrets,
    is_secret_name,
    masked,
    revealed,
)


@pytest.mark.parametrize(
    "name",
    ["password", "Password", "db_password", "enable-secret", "api_key", "apikey", "auth.token",
     "snmp_community", "private_key", "shared_key", "tokens"],
)  # fmt: skip
def test_names_that_look_like_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["user", "keyboard", "passworded", "tokenize", "host", "monkey"])
def test_names_that_do_not(name: str) -> None:
    assert not is_secret_name(name)


def test_everything_secret_is_masked_at_any_depth() -> None:
    said = {
        "hosts": {"a": {"password": "x", "port": 22, "pins": [1]}},
        "tokens": ["t1", "t2"],
        "url": "secret:env:URL",
        "password": "",
        "secret": {"nested": "by its own name"},
    }
    assert masked(said) == {
        "hosts": {"a": {"password": MASK, "port": 22, "pins": [1]}},
        "tokens": [MASK, MASK],
        "url": MASK,
        "password": "",
        "secret": {"nested": "by its own name"},
    }
    assert has_secrets(said)
    assert not has_secrets({"a": [1, {"b": "c"}]})


def test_references_are_resolved_and_other_secrets_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("from a file\n")
    monkeypatch.setenv("DB_PASSWORD", "from the environment")
    said = {"a": "secret:env:DB_PASSWORD", "b": [f"secret:file:{tmp_path}/key"], "password": "x"}
    assert revealed(said) == {
        "a": "from the environment",
        "b": ["from a file"],
        "password": "x",
    }


@pytest.mark.parametrize("reference", ["secret:env:NOT_SET_ANYWHERE", "secret:file:/nowhere/x"])
def test_a_reference_that_cannot_be_resolved_is_named(reference: str) -> None:
    with pytest.raises(SecretNotFound, match=reference):
        revealed({"a": reference})


def test_plain_secrets_are_found_by_path() -> None:
    said = {"hosts": [{"password": "x"}], "token": "secret:env:T", "secret": "", "note": "y"}
    assert bare_secrets(said) == ["hosts.0.password"]
    assert bare_secrets("x", "a.password") == ["a.password"]
