"""The broker's own key is replaced: both serve, then the new one alone, and nothing else is."""

import os
import tomllib
from pathlib import Path

import pytest
import zmq

from dragoman import Client
from dragoman.cli.broker_files import find_settings
from dragoman.cli.exit_codes import run_to_exit_code
from dragoman.cli.main import app
from dragoman.sdk.credentials import read_credentials
from dragoman.server.credentials import read_secret
from dragoman.testing.harness import LocalBroker


@pytest.fixture
def config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert run_to_exit_code(lambda: app(["init", str(tmp_path)])) == 0
    capsys.readouterr()
    return tmp_path / "dragoman.toml"


def rotate(config: Path, *words: str) -> int:
    said = ["keys", "rotate", "broker", "--config", str(config), *words]
    return run_to_exit_code(lambda: app(said))


def test_both_keys_are_served_and_then_the_new_one_alone(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(config.read_text() + "# mine\n")
    before = tomllib.loads(config.read_text())
    keys = config.parent / "keys"
    first, second = keys / "broker.key_secret", keys / "broker-2.key_secret"
    assert rotate(config) == 0
    said = capsys.readouterr().out
    assert zmq.curve_public(read_secret(second)).decode() in said
    assert os.stat(second).st_mode & 0o077 == 0
    settings = find_settings(config, None)
    assert settings.credentials.curve == (second, first)
    assert rotate(config) == 2, "one at a time"
    assert "--finish" in capsys.readouterr().err
    assert rotate(config, "--finish") == 0
    settings = find_settings(config, None)
    assert settings.credentials.curve == (second,)
    assert not first.exists()
    assert (keys / "retired-broker.key_secret").is_file()
    after = tomllib.loads(config.read_text())
    assert after["credentials"].pop("curve") == [str(second)]
    assert before["credentials"].pop("curve") == [str(first)]
    assert after == before
    assert config.read_text().endswith("# mine\n")
    assert rotate(config, "--finish") == 2
    assert "no rotation is under way" in capsys.readouterr().err


@pytest.mark.parametrize(
    "otherwise", ["curve = [ # mine\n", "'curve' = ["], ids=["several lines", "quotes"]
)
def test_settings_that_cannot_be_edited_are_left_alone(
    config: Path, capsys: pytest.CaptureFixture[str], otherwise: str
) -> None:
    config.write_text(config.read_text().replace("curve = [", otherwise))
    before = config.read_text()
    assert rotate(config) == 2
    assert "by hand under [credentials]: curve = " in capsys.readouterr().err
    assert config.read_text() == before
    assert not (config.parent / "keys" / "broker-2.key_secret").exists()


def test_without_settings_or_a_key_nothing_is_done(
    tmp_path: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.toml"
    empty.write_text("")
    assert rotate(empty) == 2
    assert "no CURVE key yet" in capsys.readouterr().err


@pytest.mark.interop
def test_peers_of_both_keys_are_served_meanwhile(config: Path) -> None:
    assert rotate(config) == 0
    settings = find_settings(config, None)
    made = read_credentials(config.parent / "admin.key")
    server = zmq.curve_public(read_secret(settings.credentials.curve[0])).decode()
    with LocalBroker(
        "nfp",
        data=settings.data,
        security=settings.security.model_dump(),
        credentials=settings.credentials.model_dump(),
    ) as broker:
        for credentials in (made, made.with_server(server)):
            with Client(broker.url("nfp"), credentials=credentials) as client:
                assert client.call("mmi.service.broker", "show_broker", timeout=20)
