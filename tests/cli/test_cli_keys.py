"""`dragoman keys`: the keys of principals, with and without a running broker."""

import io
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.cli.exit_codes import run_to_exit_code
from dragoman.cli.keys import find_key
from dragoman.cli.main import app
from dragoman.sdk.credentials import read_credentials
from dragoman.security.keys import KeyState
from dragoman.security.passwords import is_right
from dragoman.security.registry import KeyRegistry

KEY = "tls:" + "0f" * 32
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    def command(*words: str) -> tuple[int, str, str]:
        code = run_to_exit_code(lambda: app(["keys", *words, "--data", str(tmp_path)]))
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


@pytest.fixture
def registry(tmp_path: Path) -> KeyRegistry:
    return KeyRegistry.open(tmp_path / "registry.json")


def listed(keys: Command, *words: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(keys("list", "--json", *words)[1])
    return found


def test_new_credentials_are_written_and_let_in(
    keys: Command, registry: KeyRegistry, tmp_path: Path
) -> None:
    out = tmp_path / "sue.key"
    code, said, _ = keys("new", "sue", "--role", "submitter", "--out", str(out), "--days", "30")
    assert (code, f"wrote {out}" in said) == (0, True)
    made = read_credentials(out)
    registry.refresh(0.0)
    key = registry.check_token(made.token, time.time())
    assert key is not None
    assert registry.principal_of(key) == "sue"
    assert registry.entry_of("sue").roles == ("submitter",)
    assert registry.check_token(made.token, time.time() + 31 * 86_400) is None
    assert made.token not in said, "secrets are in the file only"
    assert {row["principal"] for row in listed(keys)} == {"sue"}


def test_a_key_that_a_peer_made_itself_is_let_in(keys: Command, registry: KeyRegistry) -> None:
    assert keys("new", "w1", "--role", "worker", "--key", KEY)[0] == 0
    registry.refresh(0.0)
    assert registry.admits(KEY, 1.0)
    code, _, error = keys("new", "w1", "--key", "nonsense")
    assert (code, "is no key" in error) == (2, True)


def test_a_pending_key_is_listed_and_approved(keys: Command, registry: KeyRegistry) -> None:
    registry.add_pending(KEY, 0.0, "knocked")
    registry.refresh(0.0)
    assert [row["key"] for row in listed(keys, "--state", "pending")] == [KEY]
    code, said, _ = keys("approve", "tls:0f0f0f0f0f0f...", "--name", "w1", "--role", "worker")
    assert (code, "for w1" in said) == (0, True)
    registry.refresh(0.0)
    assert registry.admits(KEY, 1.0)
    assert listed(keys, "--state", "pending") == []


def test_a_fleet_is_approved_by_the_names_it_shows(keys: Command, registry: KeyRegistry) -> None:
    fleet = {
        "tls:" + "1" * 64: "switch-1 from 10.0.0.1:40000",
        "tls:" + "2" * 64: "switch-1-NFPClient from 10.0.0.1:40001",
        "tls:" + "3" * 64: "switch-2 from 10.0.0.2:40000",
        "tls:" + "4" * 64: "laptop from 10.0.0.9:40000",
    }
    for key, source in fleet.items():
        registry.add_pending(key, 0.0, source)
    registry.refresh(0.0)
    assert [row["note"] for row in listed(keys, "--state", "pending")] == [*fleet.values()]
    code, said, _ = keys("approve", "--pending", "switch-*", "--role", "worker")
    assert (code, "approved 3 key(s): switch-1, switch-2" in said) == (0, True)
    registry.refresh(0.0)
    assert [registry.admits(key, 1.0) for key in fleet] == [True, True, True, False]
    assert registry.principal_of("tls:" + "2" * 64) == "switch-1"
    assert "no pending key matches" in keys("approve", "--pending", "switch-*")[1]
    assert keys("approve")[0] == 2


def test_a_principal_or_a_key_is_revoked(keys: Command, registry: KeyRegistry) -> None:
    keys("new", "w1", "--key", KEY)
    assert keys("revoke", "w1")[0] == 0
    registry.refresh(0.0)
    assert registry.state_of(KEY, 1.0) is KeyState.REVOKED
    assert keys("revoke", "nobody")[0] == 2
    assert keys("revoke", KEY[:20])[0] == 0


def test_roles_are_replaced(keys: Command, registry: KeyRegistry) -> None:
    keys("new", "w1", "--role", "worker", "--key", KEY)
    assert keys("roles", "w1", "viewer", "auditor")[1] == "w1: viewer, auditor\n"
    registry.refresh(0.0)
    assert registry.entry_of("w1").roles == ("viewer", "auditor")
    assert keys("roles", "w1")[1] == "w1: no roles\n"


def test_a_rotation_gives_new_keys_and_ends_the_old_ones(
    keys: Command, registry: KeyRegistry, tmp_path: Path
) -> None:
    keys("new", "w1", "--role", "worker", "--key", KEY)
    out = tmp_path / "new.key"
    code, said, _ = keys("rotate", "w1", "--out", str(out), "--grace", "1")
    assert (code, "1 old key(s) expire in 1 h" in said) == (0, True)
    registry.refresh(0.0)
    now = time.time()
    assert registry.admits(KEY, now)
    assert registry.state_of(KEY, now + 3601) is KeyState.EXPIRED
    assert registry.check_token(read_credentials(out).token, now + 3601) is not None
    assert keys("rotate", "nobody")[0] == 2
    assert "no CURVE key yet" in keys("rotate", "broker")[2]


@pytest.mark.shows_secrets("an invitation is shown once, to its maker")
def test_a_worker_lets_itself_in_with_an_invitation(
    keys: Command, registry: KeyRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = keys("invite", "--service", "lift", "--name", "edge-*")[1].strip()
    monkeypatch.setattr("sys.stdin", io.StringIO(token + "\n"))
    assert (
        keys("enrol", KEY, "--name", "edge-1")[1] == "registered tls:0f0f0f0f0f0f... for edge-1\n"
    )
    registry.refresh(0.0)
    assert registry.entry_of("edge-1").services == ("lift",)
    monkeypatch.setattr("sys.stdin", io.StringIO(token + "\n"))
    code, _, error = keys("enrol", "tls:" + "aa" * 32, "--name", "edge-2")
    assert (code, "already used" in error, token in error) == (2, True, False)


def test_a_shortened_key_is_completed_if_it_is_the_only_one(registry: KeyRegistry) -> None:
    registry.add(KEY, "a", now=0.0)
    registry.add("tls:" + "0f" * 31 + "00", "b", now=0.0)
    assert find_key(registry, KEY) == KEY
    with pytest.raises(ValueError, match="2 keys begin"):
        find_key(registry, "tls:0f")
    with pytest.raises(ValueError, match="no key begins"):
        find_key(registry, "tls:1")


def test_without_keys_the_list_says_how_to_make_one(keys: Command) -> None:
    assert "keys new NAME" in keys("list")[1]


@pytest.mark.shows_secrets("an invitation is shown once, to its maker")
def test_an_invitation_names_the_patterns_that_the_policy_gives_more_roles(
    keys: Command, tmp_path: Path
) -> None:
    (tmp_path / "policy.toml").write_text("[principals]\n'ops-*' = ['operator']\n")
    assert "'ops-*' will be refused: the policy gives them operator" in keys("invite")[2]
    assert keys("invite", "--name", "edge-*")[2] == ""


def test_the_tokens_of_an_issuers_principal_are_revoked(
    keys: Command, registry: KeyRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert keys("revoke", "corp:anna")[0] == 2
    issuers = '{"corp": {"issuer": "https://login.example", "audience": "dragoman"}}'
    monkeypatch.setenv("DRAGOMAN_SECURITY__ISSUERS", issuers)
    assert keys("revoke", "corp:anna")[1] == "revoked every token of corp:anna\n"
    registry.refresh(0.0)
    assert registry.state_of("jwt:corp:anna", 1.0) is KeyState.REVOKED


@pytest.mark.shows_secrets("an invitation is shown once, to its maker")
def test_keys_of_a_namespace_are_in_its_own_registry(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "dragoman.toml"
    listen = "[namespaces.acme.listen]\nnfp = '127.0.0.1:0'\n"
    config.write_text(f"data = '{tmp_path / 'data'}'\n{listen}")
    where = ("--config", str(config), "--namespace", "acme")
    assert run_to_exit_code(lambda: app(["keys", "new", "sue", "--key", KEY, *where])) == 0
    assert run_to_exit_code(lambda: app(["keys", "invite", *where])) == 0
    acme = KeyRegistry.open(tmp_path / "data" / "namespaces" / "acme" / "registry.json")
    assert acme.keys_of("sue") == [KEY]
    assert len(acme.enrolments()) == 1
    assert not (tmp_path / "data" / "registry.json").exists()
    twice = ["keys", "new", "mal", "--key", KEY, "--config", str(config)]
    assert run_to_exit_code(lambda: app(twice)) == 2
    assert "in use elsewhere" in capsys.readouterr().err
    assert run_to_exit_code(lambda: app(["keys", "rotate", "broker", *where])) == 2


def test_a_password_is_read_from_standard_input_and_only_its_hash_is_kept(
    keys: Command,
    registry: KeyRegistry,
    monkeypatch: pytest.MonkeyPatch,
    canary: Callable[[str], str],
) -> None:
    secret = canary("password")
    monkeypatch.setattr("sys.stdin", io.StringIO(secret + "\n"))
    assert keys("password", "anna", "--role", "viewer")[:2] == (0, "set the password of anna\n")
    registry.refresh(0.0)
    found = registry.password_of("anna", time.time())
    assert found is not None
    assert is_right(secret, found[1])
    assert registry.entry_of("anna").roles == ("viewer",)
    assert secret not in registry.path.read_text()
    assert [row["principal"] for row in listed(keys)] == ["anna"]
    monkeypatch.setattr("sys.stdin", io.StringIO("short\n"))
    code, _, error = keys("password", "anna")
    assert (code, "12 to 1024 characters" in error) == (2, True)
    code, _, error = keys("rotate", "anna")
    assert "has no valid key" in error, "a password is not rotated"
