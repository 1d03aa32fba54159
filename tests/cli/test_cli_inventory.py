"""`dragoman inventory`."""

import json
from collections.abc import Iterator

import pytest
from tests.cli.conftest import Run

from dragoman.testing.harness import LocalBroker


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with LocalBroker(inventory={"w*": {"a": 1, "password": "x"}}) as broker:
        yield broker.url("nfp")


def test_looking_and_changing_and_taking_back(run: Run) -> None:
    assert json.loads(run("inventory", "get", "w1")[1]) == {"a": 1, "password": "***"}
    assert json.loads(run("inventory", "show")[1])["patterns"] == ["w*"]
    assert json.loads(run("inventory", "set", "w*", "b.c", "[1]")[1])["version"] == 1
    assert run("inventory", "set", "w*", "d", "plain text", "--version", "1")[0] == 0
    assert json.loads(run("inventory", "get", "w1", "b.c")[1]) == [1]
    assert json.loads(run("inventory", "get", "w1", "d")[1]) == "plain text"
    assert run("inventory", "delete", "w*", "d")[0] == 0
    assert json.loads(run("inventory", "undo", "1")[1])["undoes"] == 1
    assert json.loads(run("inventory", "get", "w1")[1]) == {"a": 1, "password": "***"}
    shown = run("inventory", "history")[1]
    assert "set w* b.c" in shown
    assert "undo of 1" in shown
    assert len(json.loads(run("inventory", "history", "--json")[1])) == 4
    assert run("inventory", "reload")[0] == 0


@pytest.mark.process
def test_a_refusal_has_an_exit_code_and_a_message(run: Run) -> None:
    code, _, err = run("inventory", "set", "w*", "b", "1", "--version", "99")
    assert code == 1
    assert "at version" in err
    assert run("inventory", "get", "w1", "no.such")[0] == 1
