"""Contexts fill in what neither a flag nor a variable gives."""

import os
from pathlib import Path

import pytest

from dragoman.cli.contexts import VARIABLES, Contexts


@pytest.fixture
def contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Contexts:
    for name in VARIABLES.values():
        # Set and deleted, so that what a context sets is gone after the test.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    found = Contexts(tmp_path / "c" / "contexts.json")
    found.add("lab", {"url": "nfp://lab", "key": "", "json": False})
    found.add("prod", {"url": "https://prod", "key": "/k", "json": True})
    return found


def test_the_first_context_is_current_until_another_is_used(contexts: Contexts) -> None:
    assert Contexts(contexts.path).current == "lab"
    contexts.use("prod")
    assert Contexts(contexts.path).current == "prod"
    contexts.remove("prod")
    assert (Contexts(contexts.path).current, list(contexts.by_name)) == ("", ["lab"])


def test_a_context_sets_what_is_not_set(
    contexts: Contexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_URL", "zss://mine")
    contexts.apply("prod")
    assert os.environ["DRAGOMAN_URL"] == "zss://mine"
    assert (os.environ["DRAGOMAN_KEY_FILE"], os.environ["DRAGOMAN_JSON"]) == ("/k", "True")


def test_an_unknown_context_and_a_broken_file_are_reported(contexts: Contexts) -> None:
    with pytest.raises(ValueError, match="no context 'x'; there are: lab, prod"):
        contexts.use("x")
    contexts.path.write_text("[]")
    with pytest.raises(ValueError, match="is not a file of contexts"):
        Contexts(contexts.path)


def test_the_file_is_private(contexts: Contexts) -> None:
    assert contexts.path.stat().st_mode & 0o777 == 0o600
