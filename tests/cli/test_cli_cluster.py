"""`dragoman cluster`: what it prints, and its exit codes. `interop` has real nodes."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nats
import pytest
from nats.aio.msg import Msg
from tests.nats_trio import free_ports
from typer.testing import CliRunner

from dragoman.cli.main import app
from dragoman.server.cluster_member import remember_section
from dragoman.server.cluster_settings import ClusterSection
from dragoman.server.member_channel import Content, MemberChannel
from dragoman.transports.nats_server import NatsServer

run = CliRunner().invoke


def test_a_token_is_private_and_never_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "cluster.token"
    assert run(app, ["cluster", "token", str(file)]).exit_code == 0
    first = file.read_text()
    assert len(first) == 65
    assert file.stat().st_mode & 0o777 == 0o600
    again = run(app, ["cluster", "token", str(file)])
    assert isinstance(again.exception, ValueError)
    assert file.read_text() == first


def test_a_folder_without_a_node_is_named(tmp_path: Path) -> None:
    result = run(app, ["cluster", "status", "--data", str(tmp_path)])
    assert "no node of a cluster has run" in str(result.exception)


def test_a_node_that_does_not_run_is_named_at_once(tmp_path: Path) -> None:
    """Its connection would be tried for half a minute."""
    [port] = free_ports(1)
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "port").write_text(f"{port}\n")
    (tmp_path / "cluster.token").write_text("0123456789abcdef")
    remember_section(ClusterSection(name="c", node="a", join=("127.0.0.1:1",)), tmp_path)
    for words in (["status"], ["verify"], ["step-down"], ["remove", "b"], ["backup", "x"]):
        result = run(app, ["cluster", *words, "--data", str(tmp_path)])
        assert isinstance(result.exception, ConnectionError)
        said = f"node a does not run with {tmp_path}: nothing answers at 127.0.0.1:{port}"
        assert said in str(result.exception)


class Members:
    """Two members that answer as the test says."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.leader = "a"
        self.marks = {"a": "m", "b": "m"}
        #: Whether the server of `b` has the whole stream.
        self.is_complete = True

    def complete(self) -> None:
        """Have the copy of `b` catch up."""
        self.is_complete = True

    def _handlers(self, node: str) -> dict[str, object]:
        def status(content: Content) -> Content:
            role = "leader" if node == self.leader else "standby"
            return {"role": role, "leader": self.leader, "epoch": 3, "lag": 0, "last": 9}

        def mark(content: Content) -> Content:
            return {"first": 1, "last": 9, "mark": self.marks[node]}

        def step_down(content: Content) -> Content:
            self.leader = "b"
            return {"done": True}

        return {"status": status, "mark": mark, "step_down": step_down}

    async def _tell_servers(self, asked: Msg) -> None:
        """Answer as JetStream does, which this server does not have."""
        replicas = [{"name": "b", "current": self.is_complete}]
        await asked.respond(json.dumps({"cluster": {"leader": "a", "replicas": replicas}}).encode())

    async def serve(self, is_up: threading.Event, stop: asyncio.Event) -> None:
        server = NatsServer(self._data / "cluster")
        url = await server.start()
        section = ClusterSection(name="c", node="a", join=("b:6222",), nats=url, replicas=2)
        remember_section(section, self._data)
        members = [
            MemberChannel(url, "c", node, self._handlers(node))  # type: ignore[arg-type]
            for node in ("a", "b")
        ]
        for member in members:
            await member.open()
            # An answer shows that it is connected.
            await member.ask(member.node, "status", 20)
        client = await nats.connect(url)
        await client.subscribe("$JS.API.STREAM.INFO.DRAGOMAN_c", cb=self._tell_servers)
        await client.flush()
        is_up.set()
        await stop.wait()
        await client.close()
        for member in members:
            await member.close()
        await server.stop()


@contextmanager
def members(data: Path) -> Iterator[Members]:
    made, is_up = Members(data), threading.Event()
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(
        target=lambda: loop.run_until_complete(made.serve(is_up, stop)), daemon=True
    )
    thread.start()
    assert is_up.wait(30)
    yield made
    loop.call_soon_threadsafe(stop.set)
    thread.join(30)
    loop.close()


@pytest.mark.interop
def test_status_verify_and_step_down(tmp_path: Path) -> None:
    where = ["--data", str(tmp_path)]
    with members(tmp_path) as made:
        shown = run(app, ["cluster", "status", *where])
        assert shown.exit_code == 0, shown.output
        assert "follows a" in shown.output
        assert json.loads(run(app, ["cluster", "status", "--json", *where]).output)["ok"]
        made.is_complete = False
        behind = run(app, ["cluster", "status", *where])
        assert (behind.exit_code, "not there: b" in behind.output) == (1, True)
        threading.Timer(0.3, made.complete).start()
        assert run(app, ["cluster", "status", "--wait", "30", *where]).exit_code == 0
        assert "all copies are equal" in run(app, ["cluster", "verify", *where]).output
        made.marks["b"] = "other"
        differing = run(app, ["cluster", "verify", *where])
        assert differing.exit_code == 1
        assert "THE COPIES DIFFER; `dragoman doctor` says which one" in differing.output
        made.marks["b"] = ""
        assert "not every copy could be compared" in run(app, ["cluster", "verify", *where]).output
        made.marks["a"] = ""
        assert "no copy could be compared" in run(app, ["cluster", "verify", *where]).output
        moved = run(app, ["cluster", "step-down", "--json", *where])
        assert json.loads(moved.output) == {"from": "a", "to": "b"}
        made.leader = ""
        unled = run(app, ["cluster", "status", *where])
        assert unled.exit_code == 1
        assert "0 nodes lead" in unled.output
        assert "no node leads" in str(run(app, ["cluster", "step-down", *where]).exception)
