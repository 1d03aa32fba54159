"""`dragoman enrol`: a machine registers its own key over HTTP."""

import io
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dragoman.cli.enrol import exchange_token
from dragoman.cli.exit_codes import run_to_exit_code
from dragoman.cli.main import app
from dragoman.sdk.credentials import read_credentials
from dragoman.security.registry import KeyRegistry
from dragoman.testing.harness import LocalBroker

Enrol = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> KeyRegistry:
    return KeyRegistry.open(tmp_path_factory.mktemp("keys") / "registry.json")


@pytest.fixture(scope="module")
def door(registry: KeyRegistry) -> Iterator[str]:
    security = {"enabled": True, "registry": registry.path}
    with LocalBroker("http", security=security, ledger={"seal": False}) as broker:
        yield broker.endpoints["http"]


@pytest.fixture
def enrol(
    door: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Enrol:
    monkeypatch.setenv("DRAGOMAN_SERVER_KEY", "s" * 40)

    def command(token: str, *words: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(token + "\n"))
        out = str(tmp_path / "worker.key")
        code = run_to_exit_code(lambda: app(["enrol", door, "--out", out, *words]))
        said = capsys.readouterr()
        return code, said.out, said.err

    return command


def test_a_worker_lets_itself_in_once(enrol: Enrol, registry: KeyRegistry, tmp_path: Path) -> None:
    token = registry.new_enrolment(now=time.time(), names=("edge-*",), services=("lift",))
    code, said, _ = enrol(token, "--name", "edge-1")
    assert (code, said.endswith("you are edge-1\n")) == (0, True)
    made = read_credentials(tmp_path / "worker.key")
    assert (made.server, made.has_curve) == ("s" * 40, True)
    registry.refresh(0.0)
    assert registry.admits(f"curve:{made.public}", time.time())
    os.unlink(tmp_path / "worker.key")
    code, _, error = enrol(token, "--name", "edge-2")
    assert (code, "already used" in error) == (4, True)
    assert not (tmp_path / "worker.key").exists()


def test_a_token_for_others_and_no_token_are_refused(enrol: Enrol, registry: KeyRegistry) -> None:
    token = registry.new_enrolment(now=time.time(), names=("edge-*",))
    code, _, error = enrol(token, "--name", "core-1")
    assert (code, "not for the name" in error, token in error) == (4, True, False)
    assert enrol("drge_0_guess")[0] == 4
    assert enrol("")[0] == 2


def test_credentials_that_are_there_are_not_replaced(enrol: Enrol, tmp_path: Path) -> None:
    (tmp_path / "worker.key").write_text("mine")
    assert enrol("token")[0] == 2
    assert (tmp_path / "worker.key").read_text() == "mine"


@pytest.mark.parametrize(
    "url",
    [
        "http://broker.example:8420",
        "http://127.0.0.1.broker.example:8420",
        "http://localhost@broker.example:8420",
        "ftp://127.0.0.1/",
    ],
)
def test_a_token_does_not_travel_in_the_open(url: str) -> None:
    with pytest.raises(ValueError, match="only over https"):
        exchange_token(url, {}, "")


def test_an_unreachable_broker_is_reported(enrol: Enrol) -> None:
    code = run_to_exit_code(lambda: exchange_token("http://127.0.0.1:1", {}, ""))
    assert code == 3


@pytest.mark.process
def test_without_security_there_is_nothing_to_be_let_into() -> None:
    with LocalBroker("http", ledger={"seal": False}) as broker:
        said = {"token": "t", "key": "k", "name": ""}
        code = run_to_exit_code(lambda: exchange_token(broker.endpoints["http"], said, ""))
    assert code == 4
