"""`dragoman init`: a broker with security on, from nothing."""

import os
import stat
from pathlib import Path

import pytest
from zmq.auth import load_certificate

from dragoman import Client, Worker
from dragoman.cli.broker_files import find_settings
from dragoman.cli.exit_codes import run_to_exit_code
from dragoman.cli.init import peers_text
from dragoman.cli.main import app
from dragoman.dialects.listeners import LISTENERS
from dragoman.security.policy_file import PolicyFile
from dragoman.testing.harness import LocalBroker


def dragoman(*words: str) -> int:
    return run_to_exit_code(lambda: app(list(words)))


@pytest.fixture
def made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert dragoman("init", str(tmp_path), "--name", "broker.example") == 0
    capsys.readouterr()
    return tmp_path


def test_everything_secret_is_for_its_owner_only(made: Path) -> None:
    for path in made.rglob("*"):
        is_open = stat.S_IMODE(os.stat(path).st_mode) & 0o077
        secret = path.is_file() and b"PRIVATE" in path.read_bytes()
        secret = secret or path.suffix in (".key_secret", ".json") or path.name == "admin.key"
        assert not (secret and is_open), path


def test_the_peers_file_contains_no_secret(made: Path) -> None:
    told = (made / "peers.txt").read_text()
    public, secret = load_certificate(made / "keys" / "broker.key_secret")
    assert secret is not None
    assert public.decode() in told
    assert secret.decode() not in told
    assert "PRIVATE" not in told
    for each in LISTENERS:
        assert f"broker.example:{each.port}" in told


def test_the_peers_file_has_the_address_of_every_listener(made: Path) -> None:
    text = (made / "peers.txt").read_text()
    assert all(f":{each.port}" in text for each in LISTENERS)


def test_the_public_key_is_a_certificate_of_pyzmqs(made: Path) -> None:
    public, secret = load_certificate(made / "keys" / "broker.key")
    assert secret is None
    assert public.decode() in peers_text("h", public.decode(), "")


def test_nothing_that_is_there_is_replaced(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (made / "dragoman.toml").read_bytes()
    assert dragoman("init", str(made)) == 2
    assert "nothing was changed" in capsys.readouterr().err
    assert (made / "dragoman.toml").read_bytes() == before


def test_the_settings_are_a_brokers_and_security_is_on(made: Path) -> None:
    settings = find_settings(made / "dragoman.toml", None)
    assert settings.security.enabled
    assert settings.listen.nfp == "tcp://127.0.0.1:5555"
    policy = PolicyFile(made / "policy.toml").policy
    assert policy.allowance_of("anybody").open_jobs == 100_000
    assert settings.credentials.curve == (made / "keys" / "broker.key_secret",)


@pytest.mark.process
def test_a_broker_that_was_made_so_serves_those_who_have_credentials(
    made: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = str(made / "dragoman.toml")
    for name, role in (("sue", "submitter"), ("w1", "worker")):
        words = ["keys", "new", name, "--role", role, "--out", str(made / f"{name}.key")]
        assert dragoman(*words, "--config", config) == 0
    settings = find_settings(made / "dragoman.toml", None)
    said = {
        "security": settings.security.model_dump(),
        "credentials": settings.credentials.model_dump(),
    }
    with LocalBroker("nfp", data=settings.data, **said) as broker:
        url = broker.url("nfp")
        worker = Worker(
            url, service="math", name="w1", own_process_beats=False, credentials=made / "w1.key"
        )
        worker.task(lambda x: x + 1, name="inc")
        with worker, Client(url, credentials=made / "sue.key") as client:
            assert client.call("math", "inc", x=1, timeout=20) == 2
