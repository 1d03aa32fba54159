"""Power cuts of a whole broker: its data folder is on a disk that forgets what was not synced.

Each round mounts the disk that the cut before has left, starts `dragoman up` on it, lets callers
work, and cuts the power. Some cuts come while the broker stops. What callers were promised must be
in the ledger of the next round. Ledger, head file, snapshot, segments and folders all take part.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from scripts.fuse_mount import FuseMount
from scripts.volatile_disk import BrokenPromise, DiskDirectory, DiskFile, VolatileDisk

from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.record import Kind

SETTINGS: Final = """
drain = 0.5
[listen]
nfp = "off"
dcp = "off"
zss = "off"
zss_backend = "off"
memo = "off"
nats = "off"
mdp = "off"
http = "http://127.0.0.1:0"
[ledger]
seal_age = 0.3
"""
#: Seconds of load before a cut, at most; seconds that a start may take.
LOAD: Final = 2.0
PATIENCE: Final = 300.0
#: The share of cuts that come while the broker stops.
STOPPING: Final = 0.3


class PowercutCampaign:
    """Rounds on one disk, and all promises so far."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mount = folder / "disk"
        self._mount.mkdir()
        (folder / "dragoman.toml").write_text(SETTINGS)
        self.disk = VolatileDisk()
        self.taken: set[str] = set()
        self.told: set[str] = set()
        #: Syncs of files and directories, over all rounds.
        self.syncs = self.directory_syncs = 0

    def round(self, seed: int) -> None:
        """Let the broker work, cut the power, and check what is left."""
        dice = random.Random(seed)
        with FuseMount(self.disk, self._mount), self._broker() as (broker, url):
            with self._load(url) as promises:
                left = self._cut(broker, dice)
            self._read(promises)
        self.syncs += self.disk.syncs
        self.directory_syncs += self.disk.directory_syncs
        self.disk = left
        self._check(self._folder / f"after-{seed}")

    def _cut(self, broker: "subprocess.Popen[bytes]", dice: random.Random) -> VolatileDisk:
        time.sleep(dice.random() * LOAD)
        if dice.random() < STOPPING:
            broker.send_signal(signal.SIGTERM)
            time.sleep(dice.random())
        left = self.disk.cut(dice)
        broker.kill()
        broker.wait()
        return left

    @contextmanager
    def _broker(self) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
        ready = self._folder / "ready.json"
        ready.unlink(missing_ok=True)
        program = Path(sys.executable).with_name("dragoman")
        command = [program, "up", "--config", self._folder / "dragoman.toml", "--ready-file", ready]
        log = self._folder / "broker.log"
        broker = start([*map(str, command), "--data", str(self._mount / "data")], log)
        try:
            deadline = time.monotonic() + PATIENCE
            while not ready.exists():
                if broker.poll() is not None or time.monotonic() > deadline:
                    raise BrokenPromise(f"the broker does not start:\n{log.read_text()[-3000:]}")
                time.sleep(0.02)
            yield broker, json.loads(ready.read_text())["http"]
        finally:
            broker.kill()
            broker.wait()

    @contextmanager
    def _load(self, url: str) -> Iterator[Path]:
        promises = self._folder / "promises.txt"
        promises.write_bytes(b"")
        load = start([sys.executable, "-m", "scripts.powercut_load", url], promises)
        try:
            deadline = time.monotonic() + PATIENCE
            while not promises.stat().st_size and time.monotonic() < deadline:
                time.sleep(0.02)
            yield promises
        finally:
            load.kill()
            load.wait()

    def _read(self, promises: Path) -> None:
        """Note what was promised; a line that the kill has cut off promises nothing."""
        for line in promises.read_text().splitlines(keepends=True):
            word, _, job = line.partition(" ")
            if line.endswith("\n") and word in ("taken", "told"):
                (self.taken if word == "taken" else self.told).add(job.strip())

    def _check(self, folder: Path) -> None:
        """Open a copy of the ledger that is left; all promises must be in it."""
        data = self.disk.root.entries.get("data")
        if not isinstance(data, DiskDirectory):
            if self.taken:
                raise BrokenPromise("the data folder is gone")
            return
        folder.mkdir()
        for name, file in data.entries.items():
            if isinstance(file, DiskFile) and name.startswith("ledger.sqlite"):
                (folder / name).write_bytes(file.content)
        missing = self.missing(folder / "ledger.sqlite")
        if missing:
            raise BrokenPromise(f"promised, and missing in {folder}: {sorted(missing)[:5]}")

    def missing(self, path: Path) -> set[str]:
        """Return the promised jobs that a ledger does not have."""
        ledger = SqliteLedger(path)
        try:
            ledger.verify()
            records = list(ledger.read())
        finally:
            asyncio.run(ledger.close())
        taken = {each.job for each in records if each.kind == Kind.SUBMITTED}
        ended = {each.job for each in records if each.kind == Kind.ENDED}
        return self.taken - taken | self.told - ended


def start(command: list[str], log: Path) -> "subprocess.Popen[bytes]":
    """Start a process with its output in a file."""
    with log.open("ab") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=os.environ
        )
