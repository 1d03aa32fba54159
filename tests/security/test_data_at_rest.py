"""What the broker and `init` write is for their owner only, whatever the umask of the shell."""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.interop.harness import until

from dragoman import Client
from dragoman.security.files import make_private_folder

SID = "sid.service.broker"
DRAGOMAN = [str(Path(sys.executable).with_name("dragoman"))]


def too_wide(folder: Path) -> list[str]:
    """Name every file and folder that others may use."""
    found = [folder, *folder.rglob("*")]
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in found if not path.is_symlink()}
    return [f"{path} {mode:04o}" for path, mode in modes.items() if mode & 0o077]


@pytest.mark.process
def test_everything_a_broker_writes_is_for_its_owner(tmp_path: Path) -> None:
    data, ready = tmp_path / "data", tmp_path / "ready.json"
    off = "--dcp off --zss off --zss-backend off --memo off --http off".split()
    listen = ["--nfp", "127.0.0.1:0", "--nats", "127.0.0.1:0", *off]
    command = [*DRAGOMAN, "up", "--data", str(data), "--ready-file", str(ready), *listen]
    broker = subprocess.Popen(command, umask=0o022, stderr=subprocess.DEVNULL)
    try:
        until(ready.exists, "the broker is ready", 30)
        url = json.loads(ready.read_text())["nfp"].replace("tcp://", "nfp://")
        with Client(url, "me") as client:
            client.call(SID, "set", pattern="w", path="a", value=1, timeout=10)
        assert too_wide(data) == []
    finally:
        broker.send_signal(signal.SIGTERM)
        broker.wait(30)
    assert (data / "inventory.json").exists()
    assert list((data / "sealed").glob("*.parquet"))
    assert too_wide(data) == []


@pytest.mark.process
def test_everything_init_writes_is_for_its_owner(tmp_path: Path) -> None:
    folder = tmp_path / "broker"
    done = subprocess.run([*DRAGOMAN, "init", str(folder)], umask=0o022, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert too_wide(folder) == []


def test_an_existing_folder_that_is_open_to_others_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    assert make_private_folder(folder) == ""
    os.chmod(folder, 0o755)
    assert f"chmod -R go-rwx {folder}" in make_private_folder(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
