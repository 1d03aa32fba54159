"""Checks of a broker's settings: ports, data folder, disk, ledger."""

import os
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final
from urllib.parse import urlsplit

from dragoman.cli.doctor.check_results import CheckResult, bad, ok, warning
from dragoman.cli.doctor.cluster_checks import can_reach, gather, judge
from dragoman.sdk.blocking import Client
from dragoman.sdk.errors import DragomanError
from dragoman.security.files import make_private_folder
from dragoman.server.cluster_member import find_section
from dragoman.server.cluster_settings import ClusterSection
from dragoman.server.namespace_settings import all_namespaces
from dragoman.server.server import LEDGER_FILE
from dragoman.server.settings import BrokerSettings, Listen

_WRITES: Final = 25
#: Seconds of an fsync: below the first it is fast, above the second it limits throughput.
_FAST: Final = 0.010
_SLOW: Final = 0.050
_LITTLE: Final = 2**30
_TOO_LITTLE: Final = 64 * 2**20
_PATIENCE: Final = 2.0


class BrokerChecks:
    """Checks of the ports and folders that the settings name."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        #: What a running broker says is wrong with it; `ports` finds it.
        self._troubles: list[dict[str, object]] = []

    # --- the cluster --------------------------------------------------------------------------

    def cluster(self) -> Iterator[CheckResult]:
        """Check the settings of the cluster; if this node runs, ask all nodes how they are."""
        try:
            section = find_section(self.settings)
        except ValueError:
            return  # this broker is alone
        if not section.nats:
            try:
                section.read_token(self.settings.data)
            except ValueError as error:
                yield bad("cluster", str(error))
            if len(section.join) % 2:
                yield warning("cluster", f"{len(section.join) + 1} nodes: use three or five")
        facts, is_there = None, can_reach(section, self.settings)
        if is_there:
            facts = gather(self.settings)
            yield from judge(facts)
        elif is_there is not None:
            yield _unreachable(section)
        if facts is None or facts.silent:
            yield from map(_node, section.join)

    # --- namespaces ---------------------------------------------------------------------------

    def namespaces(self) -> Iterator[CheckResult]:
        """Check the settings of the namespaces, and list their listeners."""
        if not getattr(self.settings, "namespaces", {}):
            return
        try:
            found = all_namespaces(self.settings)
        except ValueError as error:
            yield bad("namespaces", str(error))
            return
        for name in self.settings.namespaces:
            listen = found[name].listen.model_dump().items()
            shown = ", ".join(f"{each} {at}" for each, at in listen if at != "off")
            yield ok(f"namespace {name}", f"{found[name].data}; {shown}")

    # --- ports --------------------------------------------------------------------------------

    def ports(self) -> Iterator[CheckResult]:
        """Check that every listener's port is free, or that a broker has it already."""
        listen, in_use = self.settings.listen, list[CheckResult]()
        for name in Listen.model_fields:
            endpoint = getattr(listen, name)
            results = _port(name, endpoint)
            if results.verdict == "bad":
                in_use.append(results)
            else:
                yield results
        if in_use and (text := self._running()):
            yield from (ok(each.what, f"{text} listens there") for each in in_use)
        else:
            yield from in_use

    def _running(self) -> str:
        """Describe the broker that answers on the NFP endpoint; empty if none does."""
        endpoint = self.settings.listen.nfp
        if endpoint == "off":
            return ""
        try:
            with Client(endpoint.replace("tcp://", "nfp://")) as client:
                found = client.call("mmi.service.broker", "show_status", timeout=_PATIENCE)
        except (DragomanError, OSError, ValueError):
            return ""
        self._troubles = found["troubles"]
        return f"a broker with {found['totals']['records']} records"

    def running(self) -> Iterator[CheckResult]:
        """Report what the broker that runs with these settings says is wrong with it."""
        for each in self._troubles:
            verdict = bad if each["is_blocking"] else warning
            yield verdict(f"broker: {each['part']}", f"{each['reason']}: {each['detail']}")

    # --- disk ---------------------------------------------------------------------------------

    def disk(self) -> Iterator[CheckResult]:
        """Check that the data folder is writable and has space; measure fsync."""
        folder = _nearest(self.settings.data)
        if not os.access(folder, os.W_OK):
            yield bad("data folder", f"{self.settings.data}: {folder} is not writable")
            return
        problem = make_private_folder(folder) if folder == self.settings.data.absolute() else ""
        if problem:
            yield warning("data folder", problem)
        else:
            yield ok("data folder", f"{self.settings.data.absolute()}")
        free = shutil.disk_usage(folder).free
        verdict = ok if free >= _LITTLE else warning if free >= _TOO_LITTLE else bad
        yield verdict("disk space", f"{free / 2**30:.1f} GiB free")
        yield _fsync(folder)

    def ledger(self) -> Iterator[CheckResult]:
        """Check that the clock is not before the last write of the ledger."""
        path = self.settings.data / LEDGER_FILE
        if not path.exists():
            yield ok("ledger", "none yet; the first start creates it")
            return
        size = path.stat().st_size / 2**20
        ahead = path.stat().st_mtime - time.time()
        if ahead > 1:
            yield bad("ledger", f"last written {ahead:.0f} s in the future; check the clock")
        else:
            yield ok("ledger", f"{path}, {size:.1f} MiB")


def _port(name: str, endpoint: str) -> CheckResult:
    what = f"port {name}"
    if endpoint == "off":
        return ok(what, "off")
    parts = urlsplit(endpoint)
    if not endpoint or not parts.port:
        return ok(what, "any free port")
    if parts.scheme in ("nats", "tls"):
        return ok(what, f"uses {endpoint}")
    host = parts.hostname or "127.0.0.1"
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("" if host == "*" else host, parts.port))
    except OSError as error:
        return bad(what, f"{host}:{parts.port}: {error.strerror or error}")
    return ok(what, f"{host}:{parts.port} is free")


def _nearest(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that exists."""
    folder = folder.absolute()
    while not folder.exists():
        folder = folder.parent
    return folder


def _fsync(folder: Path) -> CheckResult:
    """Write and fsync as the ledger does; report the latency."""
    took: list[float] = []
    path = folder / f".dragoman-doctor-{os.getpid()}"
    try:
        with path.open("wb") as file:
            for _ in range(_WRITES):
                started = time.perf_counter()
                file.write(b"x" * 4096)
                file.flush()
                os.fsync(file.fileno())
                took.append(time.perf_counter() - started)
    finally:
        path.unlink(missing_ok=True)
    middle, worst = median(took), max(took)
    text = f"median {middle * 1000:.2f} ms, worst {worst * 1000:.1f} ms"
    if middle <= _FAST:
        return ok("fsync", text)
    hint = "acknowledgements wait for it; a local SSD is faster"
    return warning("fsync", f"{text}; {hint}" if middle <= _SLOW else f"{text}: slow; {hint}")


def _unreachable(section: ClusterSection) -> CheckResult:
    """Say why the nodes were not asked."""
    if not section.nats:
        text = f"node {section.node} does not run, so the others were not asked"
        return warning("cluster", f"{text}; start it, or run doctor on a node that runs")
    text = "its NATS servers cannot be reached from here; start them, or correct `cluster.nats`"
    return bad("cluster", f"{text}. Set `sync_interval: always` there")


def _node(place: str) -> CheckResult:
    """Check that another node of the cluster can be reached."""
    host, _, port = place.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
    except OSError as error:
        text = f"{place} is not reachable ({error.strerror or error}); does that node run?"
        return warning("cluster", text)
    return ok("cluster", f"{place} is reachable")
