"""Independent peers of NCL: a compute node and an orchestrator that share no code with ours.

Written from the wire notes with nothing but nats-py, zlib and json, so that a mistake on our side
is not repeated here. They do what a test tells them, including what no good peer would.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from zlib import crc32

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

PATIENCE = 20.0


def seal(kind: str, payload: Any, source: str, seq: int = 0, **more: str) -> bytes:
    """Write a message."""
    pairs = {
        "Bacalhau-Type": kind,
        "Type": kind,
        "Bacalhau-PayloadEncoding": "json",
        "PayloadEncoding": "json",
        "Bacalhau-Source": source,
        "Bacalhau-EventTime": str(time.time_ns()),
        **more,
    }
    if seq:
        pairs |= {"Bacalhau-SeqNum": str(seq), "Bacalhau-MessageID": f"seq-{seq}"}
    body = json.dumps({"metadata": pairs, "payload": payload}).encode()
    return b"\x01" + crc32(body).to_bytes(4, "big") + body


class Opened:
    """A message that arrived."""

    def __init__(self, msg: Msg) -> None:
        assert msg.data[0] == 1
        assert int.from_bytes(msg.data[1:5], "big") == crc32(msg.data[5:])
        found = json.loads(msg.data[5:])
        self.msg = msg
        self.metadata: dict[str, str] = found["metadata"]
        self.payload: dict[str, Any] = found["payload"]
        self.type = self.metadata["Bacalhau-Type"]
        self.seq = int(self.metadata.get("Bacalhau-SeqNum", "0"))
        assert msg.headers is None or dict(msg.headers) == self.metadata

    def __repr__(self) -> str:
        return f"{self.type}({self.payload})"


class Inbox:
    """Messages in order, and a way to wait for one."""

    def __init__(self) -> None:
        self.all: list[Opened] = []
        self._more = asyncio.Event()

    def add(self, message: Opened) -> None:
        self.all.append(message)
        self._more.set()

    def of(self, kind: str) -> list[Opened]:
        return [m for m in self.all if m.type == kind]

    async def until(self, enough: Callable[[], Any]) -> Any:
        async with asyncio.timeout(PATIENCE):
            while not (found := enough()):
                self._more.clear()
                await self._more.wait()
            return found

    async def next(self, kind: str, number: int = 1) -> Opened:
        """Wait for the n-th message of a type."""
        await self.until(lambda: len(self.of(kind)) >= number)
        return self.of(kind)[number - 1]


def node_info(name: str, **more: Any) -> dict[str, Any]:
    capacity = {"CPU": 4, "Memory": 8589934592, "Disk": 107374182400}
    return {
        "NodeID": name,
        "NodeType": "Compute",
        "Labels": {"os_type": "linux"},
        "SupportedProtocols": ["bprotocol/v2", "ncl/v1"],
        "ComputeNodeInfo": {
            "ExecutionEngines": ["docker", "noop"],
            "Publishers": ["local"],
            "StorageSources": ["inline"],
            "MaxCapacity": capacity,
            "QueueCapacity": {},
            "AvailableCapacity": capacity,
            "MaxJobRequirements": capacity,
            "RunningExecutions": 0,
            "EnqueuedExecutions": 0,
            "address": "",
        },
        "BacalhauVersion": {
            "GitVersion": "v1.9.3",
            "GitCommit": "",
            "BuildDate": "0001-01-01T00:00:00Z",
            "GOOS": "",
            "GOARCH": "",
        },
        **more,
    }


class RawNode:
    """A compute node by hand."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name
        self.inbox = Inbox()
        #: Whether it acks what it gets.
        self.acks = True
        self.seq = 0
        self.received = 0

    def subject(self, channel: str) -> str:
        return f"bacalhau.global.compute.{self.name}.{channel}"

    async def listen(self) -> None:
        await self.client.subscribe(self.subject("in.msgs"), cb=self._hear)
        await self.client.flush()

    async def _hear(self, msg: Msg) -> None:
        message = Opened(msg)
        self.received = max(self.received, message.seq)
        if self.acks:
            await self.client.publish(msg.reply, b"{}")
        self.inbox.add(message)

    async def request(self, kind: str, payload: Any, *, with_headers: bool = False) -> Opened:
        """Send a control request and return the answer."""
        data = seal(kind, payload, self.name)
        headers = json.loads(data[5:])["metadata"] if with_headers else None
        return Opened(
            await self.client.request(self.subject("out.ctrl"), data, 10, headers=headers)
        )

    async def handshake(self, received: int | None = None, **more: Any) -> Opened:
        payload = {
            "NodeInfo": node_info(self.name, **more),
            "StartTime": "2026-01-02T03:04:05.678901234Z",
            "LastOrchestratorSeqNum": self.received if received is None else received,
        }
        return await self.request("transport.HandshakeRequest", payload)

    async def heartbeat(self, received: int | None = None) -> Opened:
        payload = {
            "NodeID": self.name,
            "AvailableCapacity": {"CPU": 4},
            "QueueUsedCapacity": {},
            "LastOrchestratorSeqNum": self.received if received is None else received,
        }
        return await self.request("transport.HeartbeatRequest", payload)

    async def say(self, kind: str, execution: dict[str, Any], **more: Any) -> bytes:
        """Send a data message and return what was answered."""
        self.seq += 1
        payload = {
            "ExecutionID": execution["ID"],
            "JobID": execution["JobID"],
            "JobType": execution["Job"]["Type"],
            "Events": None,
            **more,
        }
        data = seal(kind, payload, self.name, self.seq)
        return (await self.client.request(self.subject("out.msgs"), data, 10)).data

    async def result(self, execution: dict[str, Any], stdout: str) -> bytes:
        output = {
            "Stdout": stdout,
            "StdoutTruncated": False,
            "stderr": "",
            "StderrTruncated": False,
            "ExitCode": 0,
            "ErrorMsg": "",
        }
        published = {"Type": ""}
        return await self.say(
            "RunResult", execution, PublishResult=published, RunCommandResult=output
        )


class RawOrchestrator:
    """An orchestrator by hand, for as many nodes as come."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.requests = Inbox()
        self.data = Inbox()
        self.acks = True
        #: Nodes that were let in; others are told to shake hands.
        self.known: set[str] = set()
        self.refuses = ""
        self.start_at = 0

    async def listen(self) -> None:
        await self.client.subscribe("bacalhau.global.compute.*.out.ctrl", cb=self._request)
        await self.client.subscribe("bacalhau.global.compute.*.out.msgs", cb=self._data)
        await self.client.flush()

    async def _request(self, msg: Msg) -> None:
        message = Opened(msg)
        kind, payload = self._answer(message)
        await self.client.publish(msg.reply, seal(kind, payload, "orchestrator-control"))
        self.requests.add(message)

    def _answer(self, message: Opened) -> tuple[str, dict[str, Any]]:
        name = message.msg.subject.split(".")[3]
        if message.type == "transport.HandshakeRequest":
            if self.refuses:
                return _pair("Handshake", {"accepted": False, "reason": self.refuses})
            self.known.add(name)
            return _pair(
                "Handshake",
                {
                    "accepted": True,
                    "reason": "node registered",
                    "LastComputeSeqNum": 0,
                    "LastOrchestratorSeqNum": self.start_at,
                },
            )
        if name not in self.known:
            return "BacError", {"Cause": "not connected", "Code": "HandshakeRequired"}
        if message.type == "transport.UpdateNodeInfoRequest":
            return _pair("UpdateNodeInfo", {"accepted": True})
        if message.type == "transport.ShutdownNoticeRequest":
            return _pair("ShutdownNotice", {"LastComputeSeqNum": 0})
        return _pair("Heartbeat", {"LastComputeSeqNum": 0})

    async def _data(self, msg: Msg) -> None:
        message = Opened(msg)
        if self.acks:
            await self.client.publish(msg.reply, b"{}")
        self.data.add(message)

    async def send(self, node: str, kind: str, payload: Any, seq: int) -> bytes:
        """Send a data message and return what was answered."""
        subject = f"bacalhau.global.compute.{node}.in.msgs"
        more = {"Bacalhau-Subject": subject}
        data = seal(kind, payload, f"orchestrator-{node}", seq, **more)
        return (await self.client.request(subject, data, 10)).data


def _pair(name: str, payload: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return f"transport.{name}Response", payload


def execution(
    name: str, node: str, params: dict[str, Any], *, kind: str = "batch", desired: int = 0
) -> dict[str, Any]:
    """Write an execution as a real orchestrator would."""
    job = {
        "ID": f"j-{name}",
        "Name": "hello",
        "Namespace": "default",
        "Type": kind,
        "Priority": 0,
        "Count": 1,
        "Constraints": [],
        "Meta": {"bacalhau.org/orchestrator.id": "n-orch"},
        "Labels": {},
        "Tasks": [
            {
                "Name": "main",
                "Engine": {"Type": "probe", "Params": params},
                "Publisher": {"Type": ""},
                "Resources": {"CPU": "100m", "Memory": "10mb"},
                "Timeouts": {},
            }
        ],
        "State": {"StateType": "Pending"},
        "Version": 1,
        "Revision": 1,
        "CreateTime": 1794772039851606520,
        "ModifyTime": 1794772039851606580,
    }
    return {
        "ID": name,
        "Namespace": "default",
        "EvalID": "v-1",
        "Name": "",
        "NodeID": node,
        "JobID": job["ID"],
        "Job": job,
        "JobVersion": 1,
        "AllocatedResources": {"Tasks": {}},
        "DesiredState": {"StateType": desired},
        "ComputeState": {"StateType": 1},
        "PublishedResult": {"Type": ""},
        "RunOutput": None,
        "PreviousExecution": "",
        "NextExecution": "",
        "FollowupEvalID": "",
        "Revision": 1,
        "CreateTime": 1,
        "ModifyTime": 1,
    }


async def _ignore(error: Exception) -> None:
    """Tests look at what arrives, not at what nats-py complains about."""


@asynccontextmanager
async def connection(url: str) -> AsyncIterator[Client]:
    """Connect to NATS; `tcp://` is as good as `nats://`."""
    client = await nats.connect(
        url.replace("tcp://", "nats://"),
        reconnect_time_wait=1,
        max_reconnect_attempts=-1,
        error_cb=_ignore,
    )
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def raw_node(url: str, name: str, *, listens: bool = True) -> AsyncIterator[RawNode]:
    """Connect a node by hand."""
    async with connection(url) as client:
        node = RawNode(client, name)
        if listens:
            await node.listen()
        yield node


@asynccontextmanager
async def raw_orchestrator(url: str) -> AsyncIterator[RawOrchestrator]:
    """Connect an orchestrator by hand."""
    async with connection(url) as client:
        orchestrator = RawOrchestrator(client)
        await orchestrator.listen()
        yield orchestrator
