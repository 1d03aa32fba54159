"""References resolve in the allowed places only, and only from the operator's files."""

import os
from pathlib import Path
from typing import Any

import pytest

from dragoman.services.secret_references import (
    LARGEST,
    SecretNotFound,
    SecretReference,
    SecretSources,
    mark_references,
)


def test_references_in_an_operators_object_are_marked() -> None:
    tree: Any = {"a": "secret:env:X", "b": [{"c": "secret:file:/x"}], "d": "secret:other:y"}
    assert mark_references(tree) == {
        "a": SecretReference("env", "X"),
        "b": [{"c": SecretReference("file", "/x")}],
        "d": "secret:other:y",
    }


def test_references_are_resolved_at_any_depth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("from a file\n")
    monkeypatch.setenv("FLEET_DB", "from the environment")
    sources = SecretSources([tmp_path], "FLEET_")
    tree = mark_references({"a": "secret:env:FLEET_DB", "b": [f"secret:file:{tmp_path}/key"]})
    assert sources.revealed(tree) == {"a": "from the environment", "b": ["from a file"]}


def test_by_default_no_reference_resolves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text("x")
    monkeypatch.setenv("FLEET_DB", "x")
    for reference in ("secret:env:FLEET_DB", f"secret:file:{tmp_path}/key"):
        with pytest.raises(SecretNotFound, match=r"is not allowed: \[secrets\]"):
            SecretSources().revealed(mark_references(reference))


def test_what_is_outside_the_allowed_places_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (tmp_path / "other").write_text("x")
    (allowed / "link").symlink_to(tmp_path / "other")
    monkeypatch.setenv("OTHER", "x")
    sources = SecretSources([allowed], "FLEET_")
    for where in (tmp_path / "other", allowed / "link", allowed / ".." / "other", "/etc/hostname"):
        with pytest.raises(SecretNotFound, match="not allowed"):
            sources.resolve(SecretReference("file", str(where)))
    with pytest.raises(SecretNotFound, match="not allowed"):
        sources.resolve(SecretReference("env", "OTHER"))


def test_a_reference_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * (LARGEST + 1))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    os.mkfifo(tmp_path / "pipe")
    sources = SecretSources([tmp_path], "FLEET_")
    for name in ("missing", "large", "binary", ".", "bad\0name"):
        with pytest.raises(SecretNotFound, match="cannot read secret:file"):
            sources.resolve(SecretReference("file", f"{tmp_path}/{name}"))
    with pytest.raises(SecretNotFound, match="cannot read secret:env:FLEET_NOT_SET"):
        sources.resolve(SecretReference("env", "FLEET_NOT_SET"))
