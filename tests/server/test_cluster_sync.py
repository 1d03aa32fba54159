"""Whether NATS servers sync each write: read where it can be read, and said loudly."""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.nats_trio import free_ports
from typer.testing import CliRunner

from dragoman.cli.main import app
from dragoman.dialects.listeners import LISTENERS
from dragoman.server.cluster_member import ClusterMember, stream_name
from dragoman.server.cluster_settings import ClusterSection
from dragoman.server.cluster_sync import ServerSync, ask_sync, read_setting
from dragoman.server.member_channel import MemberChannel
from dragoman.server.settings_sources import load
from dragoman.transports.nats_server import NatsServer, find_binary

DEFAULT = 120.0
CONFIG = """
listen: 127.0.0.1:{client}
http: 127.0.0.1:{monitor}
server_name: far
jetstream {{ store_dir: "{folder}" {sync} }}
accounts {{
  SYS {{
    users: [{{ user: s, password: s }}]
    exports: [{{ service: "$SYS.REQ.SERVER.PING.VARZ", response: stream }}]
  }}
  BROKERS {{
    jetstream: enabled
    users: [{{ user: b, password: b }}]
    {imports}
  }}
}}
system_account: SYS
"""
IMPORTS = 'imports: [{ service: { account: SYS, subject: "$SYS.REQ.SERVER.PING.VARZ" } }]'


class FarServer:
    """A nats-server that is not the broker's own."""

    def __init__(self, folder: Path, *, sync: str = "", imports: str = "") -> None:
        client, monitor = free_ports(2)
        self.url = f"nats://b:b@127.0.0.1:{client}"
        self.monitor = f"http://127.0.0.1:{monitor}"
        self._folder = folder / "far"
        self._folder.mkdir()
        store = self._folder / "store"
        text = CONFIG.format(
            client=client, monitor=monitor, folder=store, sync=sync, imports=imports
        )
        (self._folder / "nats.conf").write_text(text)

    @contextmanager
    def running(self) -> Iterator["FarServer"]:
        command = [find_binary(), "-c", str(self._folder / "nats.conf")]
        with (self._folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                yield self
            finally:
                process.kill()
                process.wait()

    def settings(self, data: Path, **more: Any) -> Any:
        listen = dict.fromkeys((each.name for each in LISTENERS), "off")
        listen["http"] = "off"
        cluster = {"name": "c", "node": "a", "nats": self.url, "replicas": 1, **more}
        return load(data=data, listen=listen, cluster=cluster)


ALWAYS = ", sync_interval: always"


def answer(**config: object) -> dict[str, Any]:
    return {"server_name": "n1", "jetstream": {"config": config}}


def test_the_setting_is_read_from_what_a_server_says() -> None:
    assert read_setting(answer(sync_always=True, sync_interval=120 * 10**9)) == ("n1", 0.0)
    assert read_setting(answer(sync_interval=120 * 10**9)) == ("n1", DEFAULT)
    wrapped = {"server": {"name": "n2"}, "data": answer(sync_interval=10**9)}
    assert read_setting(wrapped) == ("n2", 1.0)
    for other in ({}, {"server_name": "n", "jetstream": {}}, answer(), {"data": None}):
        assert read_setting(other) is None


def test_what_is_weaker_or_unknown_is_said_with_the_remedy() -> None:
    safe = ServerSync({"n1": 0.0, "n2": 0.0})
    assert safe.is_known_safe
    assert safe.describe() == "each write is synced to disk on n1, n2"
    weak = ServerSync({"n1": 0.0, "n2": DEFAULT, "n3": None})
    assert not weak.is_known_safe
    assert "n2 every 120 s" in weak.describe()
    assert "loses acknowledged work; set `sync_interval: always`" in weak.describe()
    assert weak.as_text() == {"n1": "always", "n2": "120 s", "n3": "unknown"}
    unknown = ServerSync({"n1": 0.0, "n3": None}, "http://n3:8222: refused")
    assert "not known of n3 (http://n3:8222: refused)" in unknown.describe()
    assert "cluster.monitor" in unknown.describe()
    assert not ServerSync().is_known_safe


def test_a_monitor_is_a_url() -> None:
    with pytest.raises(ValueError, match="no monitoring URL"):
        ClusterSection(name="c", node="a", nats="nats://n", monitor="n1:8222")


def ask(far: FarServer, data: Path, **more: str) -> ServerSync:
    """Start a member, so that there is a stream; ask for its servers."""

    async def story() -> ServerSync:
        settings = far.settings(data, **more)
        member = ClusterMember(settings)
        await member.open()
        channel = MemberChannel(far.url, "c")
        await channel.open()
        try:
            return await ask_sync(settings.cluster, channel, stream_name("c"))
        finally:
            await channel.close()
            await member.close()

    return asyncio.run(story())


@pytest.mark.interop
@pytest.mark.parametrize(("sync", "seconds"), [(ALWAYS, 0.0), ("", DEFAULT)])
@pytest.mark.parametrize("is_monitored", [True, False], ids=["monitor", "import"])
def test_a_real_server_tells_its_setting_where_it_may_be_asked(
    tmp_path: Path, sync: str, seconds: float, is_monitored: bool
) -> None:
    far = FarServer(tmp_path, sync=sync, imports="" if is_monitored else IMPORTS)
    with far.running(), capture_logs() as logs:
        monitor = far.monitor if is_monitored else ""
        assert ask(far, tmp_path / "data", monitor=monitor).servers == {"far": seconds}
    said = next(line for line in logs if "synced" in line["event"] or "sync" in line["event"])
    assert said["log_level"] == ("error" if seconds else "info")


@pytest.mark.interop
def test_a_server_that_does_not_tell_is_not_trusted(tmp_path: Path) -> None:
    far = FarServer(tmp_path, sync=ALWAYS)
    (free,) = free_ports(1)
    with far.running(), capture_logs() as logs:
        found = ask(far, tmp_path / "data", monitor=f"http://127.0.0.1:{free}")
        assert found.servers == {"far": None}
        assert str(free) in found.trouble
        assert "not known of far" in " ".join(line["event"] for line in logs)
        shown = CliRunner().invoke(app, ["cluster", "status", "--data", str(tmp_path / "data")])
        assert "WARNING: whether each write is synced" in shown.output


@pytest.mark.interop
def test_a_node_of_its_own_server_knows_the_setting_without_a_majority(tmp_path: Path) -> None:
    server = NatsServer(tmp_path)

    async def story() -> ServerSync:
        channel = MemberChannel(await server.start(), "c")
        await channel.open()
        try:
            section = ClusterSection(name="c", node="a", join=("b:6222",))
            return await ask_sync(section, channel, stream_name("c"))
        finally:
            await channel.close()
            await server.stop()

    assert asyncio.run(story()).describe() == "each write is synced to disk on a"
