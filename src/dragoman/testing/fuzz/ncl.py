"""NCL: compute nodes over NATS. Frames are subject, body, headers as JSON, reply subject."""

import json
from pathlib import Path
from random import Random
from typing import Final
from zlib import crc32

from dragoman.dialects.ncl.messages import TYPES
from dragoman.dialects.ncl.wire import CTRL, HEARTBEAT, OUT_MSGS, REQUESTS, ROOT
from dragoman.testing.fuzz.grammar import Grammar, read_vectors
from dragoman.testing.fuzz.mutations import Frames

_NODES: Final = tuple(f"n-fuzz-{number}" for number in range(8))
_CHANNELS: Final = (CTRL, CTRL, OUT_MSGS, OUT_MSGS, REQUESTS)
REPLY: Final = b"_INBOX.fuzz.1"


class NclGrammar(Grammar):
    """Makes NCL messages."""

    def __init__(self, random: Random, vectors: Path | None = None) -> None:
        super().__init__(random, _captured(vectors) if vectors else ())
        self.kinds = (
            self._handshake,
            self._heartbeat,
            self._heartbeat,
            self._update,
            self._farewell,
            self._result,
            self._result,
            self._any_type,
            self._legacy,
        )

    def mutate(self, frames: Frames) -> Frames:
        """Mutate the body, with a valid or invalid checksum. NATS keeps the frames in shape."""
        subject, body, headers, reply = frames
        inner = self.mutator.mutate(body[5:])
        if self.random.random() < 0.7:
            body = body[:1] + crc32(inner).to_bytes(4, "big") + inner
        else:
            body = self.mutator.mutate(body)
        if self.random.random() < 0.3:
            body = self._protobuf(inner)
        return [subject, body, headers, self.random.choice((reply, reply, b""))]

    def _protobuf(self, inner: bytes) -> bytes:
        """Seal a body as version 2 of the envelope."""
        return b"\x02" + crc32(inner).to_bytes(4, "big") + inner

    # --- messages -----------------------------------------------------------------------------

    def _node(self) -> str:
        random = self.random
        if random.random() < 0.9:
            return random.choice(_NODES)
        return f"n-{random.getrandbits(64):016x}"

    def _send(self, node: str, channel: str, kind: str, payload: object) -> Frames:
        pairs: dict[str, object] = {
            "Bacalhau-Type": kind,
            "Bacalhau-PayloadEncoding": "json",
            "Bacalhau-Source": node,
            "Bacalhau-EventTime": "1767323045678901234",
        }
        if channel == OUT_MSGS:
            pairs["Bacalhau-SeqNum"] = str(self.random.choice((0, 1, 2, 7, 2**64, -1)))
        fields = {"metadata": pairs, "payload": self.odd(payload)}
        if self.random.random() < 0.05:
            fields = self.mutator.value(fields)
        body = json.dumps(fields).encode()
        sealed = b"\x01" + crc32(body).to_bytes(4, "big") + body
        headers = json.dumps(pairs).encode() if self.random.random() < 0.5 else b""
        return [f"{ROOT}.{node}.{channel}".encode(), sealed, headers, REPLY]

    def _info(self, node: str) -> dict[str, object]:
        capacity = {"CPU": 4, "Memory": 2**33, "Disk": 2**36, "GPU": 0}
        info = {
            "NodeID": node,
            "NodeType": "Compute",
            "Labels": {"dragoman.service": self.service(), "dragoman.slots": "2"},
            "SupportedProtocols": ["ncl/v1"],
            "ComputeNodeInfo": {
                "ExecutionEngines": ["fuzz"],
                "MaxCapacity": capacity,
                "AvailableCapacity": capacity,
                "QueueCapacity": {},
                "MaxJobRequirements": capacity,
            },
        }
        found: dict[str, object] = self.odd(info)
        return found

    def _handshake(self) -> Frames:
        node = self._node()
        start = self.random.choice(("2026-01-02T03:04:05Z", "2026-01-02T03:04:06.5Z", "soon"))
        seq = self.random.choice((0, 1, 10**6, 2**64 - 1))
        fields = {"NodeInfo": self._info(node), "StartTime": start, "LastOrchestratorSeqNum": seq}
        return self._send(node, CTRL, "transport.HandshakeRequest", fields)

    def _heartbeat(self) -> Frames:
        node = self._node()
        fields = {"NodeID": node, "AvailableCapacity": {"CPU": 1}, "LastOrchestratorSeqNum": 1}
        return self._send(node, CTRL, "transport.HeartbeatRequest", fields)

    def _update(self) -> Frames:
        node = self._node()
        fields = {"NodeInfo": self._info(node)}
        return self._send(node, CTRL, "transport.UpdateNodeInfoRequest", fields)

    def _farewell(self) -> Frames:
        node = self._node()
        fields = {"NodeID": node, "Reason": "done"}
        return self._send(node, CTRL, "transport.ShutdownNoticeRequest", fields)

    def _result(self) -> Frames:
        kind = self.random.choice(("BidResult", "RunResult", "ComputeError"))
        fields = {
            "ExecutionID": f"e-{self.job()}",
            "JobID": self.job(),
            "JobType": "batch",
            "Events": [{"Message": "m", "Topic": "t", "Details": {"a": "b"}}],
            "Accepted": True,
            "PublishResult": {"Type": "dragoman", "Params": {"value": 1}},
            "RunCommandResult": {"Stdout": "out", "ExitCode": 0, "ErrorMsg": ""},
        }
        return self._send(self._node(), OUT_MSGS, kind, fields)

    def _any_type(self) -> Frames:
        """Make a message of any type, on any channel, with any payload."""
        kind, channel = self.random.choice(list(TYPES)), self.random.choice(_CHANNELS)
        return self._send(self._node(), channel, kind, self.mutator.value({"NodeID": self._node()}))

    def _legacy(self) -> Frames:
        node = self._node()
        method = self.random.choice(("RegisterNode/v1", "UpdateInfo/v1", "x"))
        body = self.json({"Info": self._info(node)})
        return [f"node.management.{node}.{method}".encode(), body, b"", REPLY]


def _captured(vectors: Path) -> list[Frames]:
    """Return captured messages of nodes."""
    found = []
    for vector in read_vectors(vectors / "ncl"):
        is_served = not vector["subject"].endswith((HEARTBEAT, "_INBOX"))
        is_from_node = vector["direction"].startswith(("compute->", "any")) and is_served
        if is_from_node and "payload_hex" in vector:
            subject = vector["subject"] or f"{ROOT}.{_NODES[0]}.{CTRL}"
            headers = json.dumps(vector.get("headers") or {}).encode()
            body = bytes.fromhex(vector["payload_hex"])
            found.append([subject.encode(), body, headers, REPLY])
    return found
