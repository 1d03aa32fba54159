"""`dragoman policy`: decisions with their reasons, from the command line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.cli.exit_codes import run_to_exit_code
from dragoman.cli.main import app
from dragoman.security.registry import KeyRegistry

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    text = "[roles.near]\nverbs = ['submit']\nnames = ['edge-*']\n[principals]\nbob = ['near']\n"
    (tmp_path / "policy.toml").write_text(text)
    registry = KeyRegistry.open(tmp_path / "registry.json")
    registry.add("tls:" + "0f" * 32, "alice", now=0.0, roles=("submitter",))

    def command(*words: str) -> tuple[int, str, str]:
        code = run_to_exit_code(lambda: app(["policy", *words, "--data", str(tmp_path)]))
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


def test_the_deciding_rule_is_named(policy: Command) -> None:
    assert policy("test", "alice", "submit", "resize") == (
        0,
        "allowed: alice (submitter): role submitter, rule 1\n",
        "",
    )


def test_a_denial_says_what_is_missing_and_ends_with_4(policy: Command) -> None:
    code, said, _ = policy("test", "alice", "manage", "MMI.SERVICE.BROKER", "--task", "restart")
    assert code == 4
    assert said == (
        "denied: alice (submitter): no rule of submitter allows: "
        "manage mmi.service.broker task restart\n"
    )
    assert "no role" in policy("test", "stranger", "submit", "resize")[1]


def test_targets_and_names_are_part_of_the_question(policy: Command) -> None:
    words = ("test", "bob", "submit", "resize", "--target", "names", "--name", "edge-1")
    assert policy(*words)[0] == 0
    assert policy(*words[:-1], "core-1")[0] == 4
    found = json.loads(policy(*words, "--json")[1])
    assert (found["decision"], found["roles"]) == ("allowed", ["near"])


def test_a_verb_that_does_not_exist_is_wrong_usage(policy: Command) -> None:
    assert policy("test", "alice", "fly", "resize")[0] == 2


def test_a_policy_is_checked_and_its_mistake_named(policy: Command, tmp_path: Path) -> None:
    assert "7 roles, 1 rules" in policy("check")[1]
    bad = tmp_path / "bad.toml"
    bad.write_text("[principals]\nalice = ['boss']\n")
    code, _, error = policy("check", str(bad))
    assert (code, "principals.alice" in error) == (2, True)
    assert policy("check", str(tmp_path / "none"))[0] == 2


def test_roles_are_listed_with_their_rules(policy: Command) -> None:
    rows = json.loads(policy("roles", "--json")[1])
    assert {row["role"] for row in rows} >= {"viewer", "admin", "near"}
    assert [row["names"] for row in rows if row["role"] == "near"] == [["edge-*"]]


def test_the_groups_of_a_token_are_part_of_the_question(policy: Command, tmp_path: Path) -> None:
    with (tmp_path / "policy.toml").open("a") as file:
        file.write("[groups]\n'corp:net*' = ['operator']\n")
    question = ("test", "corp:anna", "submit", "resize")
    assert policy(*question, "--group", "corp:netops")[1].startswith(
        "allowed: corp:anna (operator)"
    )
    assert policy(*question, "--group", "corp:other", "--group", "net")[0] == 4
    assert "1 about groups" in policy("check")[1]
