"""Power cuts of a whole broker, on a disk by FUSE: promises hold, and a broken one is found."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.fuse_mount import FuseMount
from scripts.powercut_broker import PowercutCampaign
from scripts.volatile_disk import BrokenPromise, DiskDirectory, DiskFile, VolatileDisk

from scripts import fuse_mount

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(bool(fuse_mount.why_not()), reason=fuse_mount.why_not() or "FUSE works"),
]
USE = """
import os
os.mkdir("a")
open("a/x", "w").write("hallo")
os.rename("a/x", "a/y")
assert os.listdir("a") == ["y"] and open("a/y").read() == "hallo"
os.truncate("a/y", 2)
with open("a/y", "ab") as file:
    file.write(b"!" * 300_000)
    file.flush()
    os.fsync(file.fileno())
assert os.path.getsize("a/y") == 300_002
open("gone", "w").close()
os.remove("gone")
"""


def test_programs_use_the_disk_like_any_other(tmp_path: Path) -> None:
    disk = VolatileDisk()
    with FuseMount(disk, tmp_path):
        subprocess.run([sys.executable, "-c", USE], cwd=tmp_path, check=True)
    folder = disk.root.entries["a"]
    assert isinstance(folder, DiskDirectory)
    file = folder.entries["y"]
    assert isinstance(file, DiskFile)
    assert (bytes(file.content[:3]), len(file.content)) == (b"ha!", 300_002)
    assert not file.unsynced
    assert list(disk.root.entries) == ["a"]


@pytest.mark.timeout(180)
def test_promises_of_a_broker_survive_a_power_cut(tmp_path: Path) -> None:
    campaign = PowercutCampaign(tmp_path)
    campaign.round(1)
    assert campaign.taken
    campaign.disk = campaign.disk.cut(random.Random(1))
    campaign.taken.add("a job that was never submitted")
    with pytest.raises(BrokenPromise, match="never submitted"):
        campaign._check(tmp_path / "again")
