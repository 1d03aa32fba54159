"""Our workers as compute nodes on an orchestrator that is not ours."""

import asyncio
import base64
import json
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.dialects.ncl_vectors import body, labels
from tests.interop.harness import Fleet, Process
from tests.interop.ncl_workers import own_nats, play, start_worker
from tests.interop.raw_ncl import RawOrchestrator, connection, execution, raw_orchestrator

pytestmark = pytest.mark.interop


class Scene:
    """One of our workers on an orchestrator by hand."""

    def __init__(self, orchestrator: RawOrchestrator, name: str) -> None:
        self.orchestrator, self.name = orchestrator, name
        self.seq = 0

    async def joined(self, number: int = 1) -> None:
        await self.orchestrator.requests.next("transport.HandshakeRequest", number)

    async def tell(self, kind: str, payload: dict[str, Any], seq: int = 0) -> None:
        self.seq = seq or self.seq + 1
        data = {"Events": None, **payload}
        assert await self.orchestrator.send(self.name, kind, data, self.seq) == b"{}"

    async def ask(self, name: str, params: dict[str, Any], **more: Any) -> dict[str, Any]:
        found = execution(name, self.name, params, **more)
        await self.tell("AskForBid", {"Execution": found})
        return found

    async def run(self, name: str, params: dict[str, Any]) -> None:
        """Ask, wait for the bid, take it."""
        await self.ask(name, params)
        bid = await self.orchestrator.data.until(lambda: self.about("BidResult", name))
        assert bid[0].payload["Accepted"] is True
        await self.tell("BidAccepted", {"ExecutionID": name, "Accepted": True})

    def about(self, kind: str, name: str) -> list[Any]:
        return [m for m in self.orchestrator.data.of(kind) if m.payload["ExecutionID"] == name]

    async def outcome(self, kind: str, name: str) -> dict[str, Any]:
        found = await self.orchestrator.data.until(lambda: self.about(kind, name))
        payload: dict[str, Any] = found[0].payload
        return payload


def stage(
    fleet: Fleet,
    tmp_path: Path,
    story: Callable[[Scene, Process], Coroutine[Any, Any, None]],
    more: str = "",
    env: dict[str, str] | None = None,
) -> None:
    with own_nats(tmp_path / "nats") as nats:

        async def run() -> None:
            async with raw_orchestrator(nats.server.url) as orchestrator:
                worker = start_worker(fleet, nats.server.url, more=more, env=env)
                scene = Scene(orchestrator, "w-1")
                await scene.joined()
                await story(scene, worker)

        play(run)


ADD = {"task": "add", "args": [], "kwargs": {"x": 2, "y": 3}}


def test_a_batch_job_runs_to_completion(fleet: Fleet, tmp_path: Path) -> None:
    async def story(scene: Scene, worker: Process) -> None:
        hello = scene.orchestrator.requests.all[0]
        info = hello.payload["NodeInfo"]
        assert (info["NodeID"], info["NodeType"]) == ("w-1", "Compute")
        assert "ncl/v1" in info["SupportedProtocols"]
        assert info["ComputeNodeInfo"]["MaxCapacity"]["CPU"] > 0
        assert info["ComputeNodeInfo"]["ExecutionEngines"] == ["probe"]
        await scene.run("e-1", ADD)
        result = await scene.outcome("RunResult", "e-1")
        assert (result["JobID"], result["JobType"]) == ("j-e-1", "batch")
        assert result["PublishResult"]["Params"] == {"value": 5}
        assert result["RunCommandResult"]["Stdout"] == "5"
        # As a real orchestrator does after every result.
        await scene.tell("CancelExecution", {"ExecutionID": "e-1"})
        assert worker.is_running

    stage(fleet, tmp_path, story)


def test_a_failing_job_a_foreign_engine_and_a_daemon_that_is_stopped(
    fleet: Fleet, tmp_path: Path
) -> None:
    async def story(scene: Scene, worker: Process) -> None:
        await scene.run("e-bad", {"task": "broken"})
        error = await scene.outcome("ComputeError", "e-bad")
        assert "broken on purpose" in error["Events"][0]["Message"]
        foreign = execution("e-docker", "w-1", {})
        foreign["Job"]["Tasks"][0]["Engine"] = {"Type": "docker", "Params": {"Image": "x"}}
        await scene.tell("AskForBid", {"Execution": foreign})
        refusal = await scene.outcome("BidResult", "e-docker")
        assert refusal["Accepted"] is False
        daemon = {"task": "patient", "kwargs": {"seconds": 30}}
        await scene.ask("e-daemon", daemon, kind="daemon", desired=1)
        await scene.tell("CancelExecution", {"ExecutionID": "e-daemon"})
        await scene.run("e-after", ADD)
        await scene.outcome("RunResult", "e-after")
        # A cancel is not confirmed, and a stopped execution has no result.
        assert [m for m in scene.orchestrator.data.all if "daemon" in str(m.payload)] == []

    stage(fleet, tmp_path, story)


def test_heartbeats_report_and_handshake_required_is_obeyed(fleet: Fleet, tmp_path: Path) -> None:
    async def story(scene: Scene, worker: Process) -> None:
        await scene.run("e-1", ADD)
        await scene.outcome("RunResult", "e-1")
        requests = scene.orchestrator.requests

        def reports() -> list[int]:
            beats = requests.of("transport.HeartbeatRequest")
            return [b.payload["LastOrchestratorSeqNum"] for b in beats if b.payload["NodeID"]]

        await requests.until(lambda: 2 in reports())
        # A replay does not make the number fall.
        await scene.tell("AskForBid", {"Execution": execution("e-1", "w-1", ADD)}, seq=1)
        count = len(reports())
        await requests.until(lambda: len(reports()) > count + 1)
        assert reports()[-1] == 2
        scene.orchestrator.known.clear()
        await scene.joined(2)
        await scene.run("e-2", ADD)
        await scene.outcome("RunResult", "e-2")

    stage(fleet, tmp_path, story)


def test_a_full_replay_runs_nothing_twice(fleet: Fleet, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.touch()

    async def story(scene: Scene, worker: Process) -> None:
        await scene.run("e-1", {"task": "noted"})
        await scene.outcome("RunResult", "e-1")
        for _ in range(3):
            found = execution("e-1", "w-1", {"task": "noted"})
            await scene.tell("AskForBid", {"Execution": found}, seq=1)
            await scene.tell("BidAccepted", {"ExecutionID": "e-1", "Accepted": True}, seq=2)
        await scene.run("e-2", ADD)
        await scene.outcome("RunResult", "e-2")
        assert len(scene.about("RunResult", "e-1")) == 1

    stage(fleet, tmp_path, story, env={"TASKS_LOG": str(notes)})
    assert notes.read_text().count("ran") == 1


def test_a_result_is_sent_again_until_it_is_acked(fleet: Fleet, tmp_path: Path) -> None:
    async def story(scene: Scene, worker: Process) -> None:
        await scene.run("e-1", {"task": "slow", "kwargs": {"seconds": 0.3}})
        scene.orchestrator.acks = False
        data = scene.orchestrator.data
        await data.until(lambda: len(scene.about("RunResult", "e-1")) >= 3)
        first, second, *_ = scene.about("RunResult", "e-1")
        assert first.seq == second.seq
        scene.orchestrator.acks = True
        count = len(scene.about("RunResult", "e-1"))
        await data.until(lambda: len(scene.about("RunResult", "e-1")) > count)
        await scene.run("e-2", ADD)
        await scene.outcome("RunResult", "e-2")

    stage(fleet, tmp_path, story)


def test_a_killed_node_with_its_store_says_what_became_of_its_work(
    fleet: Fleet, tmp_path: Path
) -> None:
    store = f"&store={tmp_path / 'store'}"

    async def story(scene: Scene, worker: Process) -> None:
        await scene.run("e-1", {"task": "slow", "kwargs": {"seconds": 30}})
        await asyncio.to_thread(worker.kill)
        nats = scene.orchestrator.client.connected_url
        assert nats is not None
        start_worker(fleet, nats.geturl(), more=store)
        await scene.joined(2)
        error = await scene.outcome("ComputeError", "e-1")
        assert error["Events"][0]["Message"] == "Failing due to node restart"
        # The orchestrator replays from what it knows; nothing runs again.
        found = execution("e-1", "w-1", {"task": "slow"})
        await scene.tell("AskForBid", {"Execution": found}, seq=1)
        await scene.tell("BidAccepted", {"ExecutionID": "e-1", "Accepted": True}, seq=2)
        await scene.run("e-2", ADD)
        await scene.outcome("RunResult", "e-2")
        assert scene.about("RunResult", "e-1") == []

    stage(fleet, tmp_path, story, more=store)


def test_hostile_input_is_acked_and_survived(fleet: Fleet, tmp_path: Path) -> None:
    async def story(scene: Scene, worker: Process) -> None:
        client = scene.orchestrator.client
        subject = "bacalhau.global.compute.w-1.in.msgs"
        for label in [*labels("decode."), "data.askforbid.nullmeta", "data.runresult"]:
            answer = await client.request(subject, body(label), 5)
            assert answer.data == b"{}"
        await scene.run("e-1", ADD)
        await scene.outcome("RunResult", "e-1")
        assert worker.is_running

    stage(fleet, tmp_path, story)


def test_logs_stream_to_a_normal_close(fleet: Fleet, tmp_path: Path) -> None:
    async def story(scene: Scene, worker: Process) -> None:
        async with connection(scene.orchestrator.client.connected_url.geturl()) as client:  # type: ignore[union-attr]
            frames: list[dict[str, Any]] = []
            closed = asyncio.Event()

            async def hear(msg: Any) -> None:
                frames.append(json.loads(msg.data))
                if frames[-1]["type"] == 2:
                    closed.set()

            await client.subscribe("_SINBOX.test.*", cb=hear)
            await client.flush()
            await _ask_logs(client, "e-1", "s1")
            await scene.run("e-1", {"task": "steps", "kwargs": {"n": 2}})
            await asyncio.wait_for(closed.wait(), 20)
            lines = [json.loads(base64.b64decode(f["data"])) for f in frames if f["type"] == 1]
            assert [json.loads(ln["value"]["Line"]) for ln in lines] == [
                {"progress": {"step": 0}},
                {"progress": {"step": 1}},
            ]
            assert frames[-1]["closeError"]["Code"] == 1000
            closed.clear()
            await _ask_logs(client, "e-never", "s2")
            await asyncio.wait_for(closed.wait(), 20)
            assert frames[-1]["closeError"]["Code"] == 4000

    stage(fleet, tmp_path, story)


async def _ask_logs(client: Any, name: str, stream: str) -> None:
    asked = {"ExecutionID": name, "NodeID": "w-1", "Tail": False, "Follow": True}
    request = {
        "consumerId": "_SINBOX.test.",
        "streamId": stream,
        "heartBeatRequestSub": "_HEARTBEAT._SINBOX.test",
        "body": base64.b64encode(json.dumps(asked).encode()).decode(),
    }
    await client.publish(
        "node.compute.w-1.ExecutionLogs/v1",
        json.dumps(request).encode(),
        reply=f"_SINBOX.test.{stream}",
    )


def test_ordinary_nats_tools_find_the_worker(fleet: Fleet, tmp_path: Path) -> None:
    async def story(scene: Scene, worker: Process) -> None:
        client = scene.orchestrator.client
        ping = json.loads((await client.request("$SRV.PING", b"", 5)).data)
        assert (ping["name"], ping["id"]) == ("probe", "w-1")
        assert ping["type"] == "io.nats.micro.v1.ping_response"
        await scene.run("e-1", ADD)
        await scene.outcome("RunResult", "e-1")
        stats = json.loads((await client.request("$SRV.STATS.probe.w-1", b"", 5)).data)
        assert stats["endpoints"][0]["num_requests"] == 1

    stage(fleet, tmp_path, story)


def test_a_clean_stop_says_goodbye(fleet: Fleet, tmp_path: Path) -> None:
    async def story(scene: Scene, worker: Process) -> None:
        await scene.run("e-1", ADD)
        await scene.outcome("RunResult", "e-1")
        os.kill(worker.pid, signal.SIGTERM)
        notice = await scene.orchestrator.requests.next("transport.ShutdownNoticeRequest")
        assert notice.payload == {"NodeID": "w-1", "LastOrchestratorSeqNum": 2}

    stage(fleet, tmp_path, story)


def is_eligible(version: dict[str, str]) -> bool:
    """Rank a node's version as Bacalhau 1.9 does: unknown, or at least 1.0.4."""
    found = tuple(version.get(name, "") for name in ("Major", "Minor", "GitVersion"))
    return found in (("", "", ""),) or found >= ("1", "0", "v1.0.4")


def test_a_real_orchestrator_finds_our_node_suitable(fleet: Fleet, tmp_path: Path) -> None:
    async def story(scene: Scene, worker: Process) -> None:
        request = await scene.orchestrator.requests.next("transport.HandshakeRequest")
        info = request.payload["NodeInfo"]
        assert is_eligible(info["BacalhauVersion"])
        assert info["Labels"]["dragoman.version"]
        compute = info["ComputeNodeInfo"]
        assert compute["Publishers"] == ["noop"]
        assert 0 < compute["MaxCapacity"]["CPU"] <= (os.cpu_count() or 1)
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        assert 0 < compute["MaxCapacity"]["Memory"] <= memory

    stage(fleet, tmp_path, story)


def test_the_first_heartbeat_does_not_wait_for_the_interval(fleet: Fleet, tmp_path: Path) -> None:
    async def story(scene: Scene, worker: Process) -> None:
        beat = await scene.orchestrator.requests.next("transport.HeartbeatRequest")
        assert beat.payload["NodeID"] == "w-1"

    stage(fleet, tmp_path, story, more="&heartbeat_interval=3600")


def test_a_burst_waits_in_the_node_s_queue(fleet: Fleet, tmp_path: Path) -> None:
    jobs = [f"e-{number}" for number in range(100)]

    async def story(scene: Scene, worker: Process) -> None:
        for name in jobs:
            await scene.ask(name, {"task": "slow", "args": [0.1], "kwargs": {}})
        for name in jobs:
            await scene.outcome("BidResult", name)
            await scene.tell("BidAccepted", {"ExecutionID": name, "Accepted": True})
        beats = scene.orchestrator.requests
        await beats.until(lambda: [b for b in beats.all if b.payload.get("QueueUsedCapacity")])
        for name in jobs:
            await scene.outcome("RunResult", name)
        assert not scene.orchestrator.data.of("ComputeError")

    stage(fleet, tmp_path, story)


def test_only_a_full_queue_refuses_a_bid(fleet: Fleet, tmp_path: Path) -> None:
    async def story(scene: Scene, worker: Process) -> None:
        for number in range(11):
            await scene.ask(f"e-{number}", {"task": "slow", "args": [30], "kwargs": {}}, desired=1)
        refusal = await scene.outcome("BidResult", "e-10")
        assert "the queue is full (8 slots, 2 places in the queue)" in str(refusal["Events"])
        assert [m.payload["ExecutionID"] for m in scene.orchestrator.data.of("BidResult")] == [
            "e-10"
        ]

    stage(fleet, tmp_path, story, more="&queue_capacity=2")


def test_what_a_task_prints_is_in_its_result_and_its_log_stays(
    fleet: Fleet, tmp_path: Path
) -> None:
    async def story(scene: Scene, worker: Process) -> None:
        await scene.run("e-1", {"task": "greet", "args": ["Ada"], "kwargs": {}})
        result = await scene.outcome("RunResult", "e-1")
        output = result["RunCommandResult"]
        assert (output["Stdout"], output["stderr"]) == ("hello Ada\nAda", "careful\n")
        assert await log_of(scene, "e-1") == [(1, "hello Ada\n"), (2, "careful\n")]
        assert await log_of(scene, "e-1") == [(1, "hello Ada\n"), (2, "careful\n")]

    stage(fleet, tmp_path, story)


async def log_of(scene: Scene, name: str) -> list[tuple[int, str]]:
    """Read the whole log of an execution, as upstream's orchestrator asks for it."""
    client, inbox = scene.orchestrator.client, "_SINBOX.abcdefghijklmnopqrstuv.12345678"
    lines = await client.subscribe(inbox)
    wanted = {"ExecutionID": name, "NodeID": scene.name, "Tail": False, "Follow": True}
    request = {
        "consumerId": inbox.rpartition(".")[0] + ".",
        "streamId": "12345678",
        "heartBeatRequestSub": "_HEARTBEAT." + inbox.rpartition(".")[0],
        "body": base64.b64encode(json.dumps(wanted).encode()).decode(),
    }
    subject = f"node.compute.{scene.name}.ExecutionLogs/v1"
    await client.publish(subject, json.dumps(request).encode(), reply=inbox)
    found = []
    while (frame := json.loads((await lines.next_msg(timeout=10)).data))["type"] == 1:
        item = json.loads(base64.b64decode(frame["data"]))["value"]
        found.append((item["Type"], item["Line"]))
    assert frame["closeError"]["Code"] == 1000
    await lines.unsubscribe()
    return found
