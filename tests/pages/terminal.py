"""A terminal on a machine of its own: blocks of pages run there as they are written.

The commands run in name spaces of their own: a network with all default ports free, and private
folders. So a page's addresses and paths need no change, and everything ends with the test.
"""

import os
import re
import select
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from tests.pages.blocks import ROOT, Block

#: Commands that run until they are stopped. A reader gives each of them its own terminal.
UNTIL_STOPPED: Final = re.compile(
    r"^(?!.*(&|--once)\s*(#.*)?$)(export \w+=\S+ )?(dragoman( --\S+ \S+)* "
    r"(up|worker|spark-worker|events --follow|pipeline stream)\b|python -m examples\.events\.serve)"
)
#: Names that pages use for machines, and the machine's own: Java looks it up.
HOSTS: Final = f"127.0.0.1 localhost broker broker.example {socket.gethostname()}\n"
#: Folders of a machine that pages write to.
FOLDERS: Final = ("/etc/dragoman", "/backups", "/srv", "/mnt")
_MARK: Final = "=== command ended with "
_SETUP: Final = """
ip link set lo up
mount --bind hosts.txt /etc/hosts
for folder in {folders}; do
    mkdir -p $folder && mount -t tmpfs tmpfs $folder
done
cd work
exec bash --noprofile --norc
"""


def can_make_terminals() -> bool:
    """Whether this machine has what a terminal needs: Linux name spaces, as root."""
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    return subprocess.run([*_UNSHARE, "true"], capture_output=True, check=False).returncode == 0


_UNSHARE: Final = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


class Failed(AssertionError):
    """A command of a page failed, or took too long."""


class Terminal:
    """A shell in an empty folder that has the project's examples and virtual environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self.log = folder / "log.txt"
        (folder / "hosts.txt").write_text(HOSTS)
        (self.folder / ".venv").symlink_to(sys.prefix)
        made = shutil.ignore_patterns("__pycache__", "__norfab__")
        shutil.copytree(ROOT / "examples", self.folder / "examples", ignore=made)
        self._background = 0
        environment = os.environ | {
            "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "HOME": str(folder),
        }
        for name in [name for name in environment if name.startswith("DRAGOMAN_")]:
            del environment[name]
        setup = _SETUP.format(folders=" ".join(FOLDERS))
        with self.log.open("wb") as log:
            self._shell = subprocess.Popen(
                [*_UNSHARE, "bash", "-c", setup],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=folder,
                env=environment,
            )

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *exc: object) -> None:
        self._shell.kill()
        self._shell.wait()
        for pipe in (self._shell.stdin, self._shell.stdout):
            assert pipe is not None
            pipe.close()

    def run(self, block: Block, *, seconds: float = 50.0, **before: str) -> str:
        """Type a block's commands, one after the other; return what they printed.

        `before_2="..."` types something else before the third command.
        """
        said = ""
        for n, command in enumerate(block.commands()):
            for other in before.get(f"before_{n}", "").splitlines():
                self.type(other, seconds=seconds)
            said += self.type(command, seconds=seconds)
        return said

    def python(self, program: str, *, seconds: float = 50.0) -> str:
        """Run a program of a page."""
        (self.folder.parent / "program.py").write_text(program)
        return self.type("python ../program.py", seconds=seconds)

    def type(self, command: str, *, seconds: float = 50.0, code: int = 0) -> str:
        """Type one command and wait for its end, or for the first line of an endless one."""
        if UNTIL_STOPPED.match(command):
            return self._in_a_terminal_of_its_own(command, seconds)
        said, ended = self._ask(command, seconds)
        if ended != code:
            raise Failed(f"$ {command}\n{said}\nended with {ended}\n{self.log.read_text()}")
        return said

    def _in_a_terminal_of_its_own(self, command: str, seconds: float) -> str:
        self._background += 1
        out = self.folder.parent / f"terminal-{self._background}.txt"
        plain = re.sub(r"\s+#.*", "", command)
        self._ask(f"{plain} >{out} 2>&1 &", seconds)
        until = time.monotonic() + seconds
        # An endless command with nothing to say yet is one that still runs.
        while not out.exists() or (not out.stat().st_size and "--follow" not in command):
            if time.monotonic() > until:
                raise Failed(f"$ {command}\nsaid nothing in {seconds:g} s")
            time.sleep(0.05)
        running, _ = self._ask("jobs -r %%", seconds)
        if "Running" not in running:
            raise Failed(f"$ {command}\nended: {out.read_text()}")
        return out.read_text()

    def _ask(self, text: str, seconds: float) -> tuple[str, int]:
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{text}\nprintf '\\n%s%s\\n' '{_MARK}' $?\n".encode())
        self._shell.stdin.flush()
        said, until = "", time.monotonic() + seconds
        while (end := re.search(rf"\n{_MARK}(\d+)\n", said)) is None:
            left = until - time.monotonic()
            ready, _, _ = select.select([self._shell.stdout], [], [], max(0.0, left))
            piece = os.read(self._shell.stdout.fileno(), 65536) if ready else b""
            if not piece:
                raise Failed(f"$ {text}\n{said}\nhas not ended\n{self.log.read_text()}")
            said += piece.decode(errors="replace")
        return said[: end.start()], int(end[1])
