"""NCL over a real nats-server: `dragoman up` and our workers with independent peers.

Real Bacalhau is in `test_bacalhau.py`; the peers here are written from the wire notes and share no
code with ours. What real peers said is replayed in `tests/dialects/test_ncl_capture.py`.
"""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import closing
from typing import Any
from zlib import crc32

import pytest
from tests.dialects.ncl_vectors import BY_LABEL, body, labels
from tests.interop.conftest import StartBroker
from tests.interop.harness import Broker, Fleet, until
from tests.interop.raw_ncl import Opened, RawNode, connection, node_info, raw_node

from dragoman import Client

pytestmark = pytest.mark.interop

LINKS = {"nfp": "127.0.0.1:0", "nats": "127.0.0.1:0"}
#: Everything that takes seconds in earnest, shortened.
SHORT = """
[ncl]
disconnect_timeout = 3.0
grace = 4.0
ack_wait = 0.5
retry_base = 0.2
retry_max = 0.5
reconcile_after = 0.3
checkpoint_interval = 0.3

[limits]
recovery_grace = 20.0
"""


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 50))


def nats_url(broker: Broker) -> str:
    return broker.endpoints["nats"]


async def call(client: Client, service: str, task: str, **kwargs: Any) -> Any:
    return await asyncio.to_thread(client.call, service, task, timeout=25, **kwargs)


# --- handshakes ---------------------------------------------------------------------------------


def test_a_handshake_new_again_and_of_the_wrong_kind(broker: StartBroker) -> None:
    b = broker(LINKS, SHORT)

    async def story() -> None:
        async with raw_node(nats_url(b), "n-raw") as node:
            first = await node.handshake()
            assert first.type == "transport.HandshakeResponse"
            assert first.payload["accepted"] is True
            assert first.payload["reason"] == "node registered"
            assert first.metadata["Bacalhau-Source"] == "orchestrator-control"
            again = await node.handshake()
            assert again.payload["reason"] == "node reconnected"
            wrong = await node.handshake(NodeType="Requester")
            assert wrong.payload["reason"] == "node is not a compute node"
            assert wrong.payload["accepted"] is False

    play(story)


def test_headers_are_not_needed_and_their_message_id_comes_back(broker: StartBroker) -> None:
    b = broker(LINKS, SHORT)

    async def story() -> None:
        async with raw_node(nats_url(b), "n-raw") as node:
            await node.handshake()
            beat = {"NodeID": "n-raw", "LastOrchestratorSeqNum": 0}
            bare = await node.request("transport.HeartbeatRequest", beat)
            assert bare.type == "transport.HeartbeatResponse"
            assert "Bacalhau-MessageID" not in bare.metadata
            answer = await node.request("transport.HeartbeatRequest", beat, with_headers=True)
            assert answer.type == "transport.HeartbeatResponse"

    play(story)


def test_without_a_session_a_heartbeat_needs_a_handshake(broker: StartBroker) -> None:
    b = broker(LINKS, SHORT.replace("disconnect_timeout = 3.0", "disconnect_timeout = 1.0"))

    async def story() -> None:
        async with raw_node(nats_url(b), "n-raw") as node:
            early = await node.heartbeat()
            assert (early.type, early.payload["Code"]) == ("BacError", "HandshakeRequired")
            assert early.metadata["Bacalhau-StatusCode"] == "428"
            await node.handshake()
            assert (await node.heartbeat()).type == "transport.HeartbeatResponse"
            left = asyncio.to_thread(until, lambda: _has_left(b), "silence ends the session")
            await left
            late = await node.heartbeat()
            assert late.payload["Code"] == "HandshakeRequired"
            again = await node.handshake()
            assert again.payload["reason"] == "node reconnected"

    play(story)


def _has_left(b: Broker) -> bool:
    with closing(sqlite3.connect(f"file:{b.ledger_file}?mode=ro", uri=True)) as ledger:
        return bool(ledger.execute("select 1 from records where kind = 'left'").fetchall())


def test_the_legacy_probe_is_refused_with_the_known_line(broker: StartBroker) -> None:
    b = broker(LINKS, SHORT)

    async def story() -> None:
        async with connection(nats_url(b)) as client:
            probe = json.dumps({"Info": node_info("n-raw")}).encode()
            answer = await client.request("node.management.n-raw.RegisterNode/v1", probe, 5)
            assert answer.data == body("legacy.register.response.upgrade")
            wanted = body("req.presign.request")
            subject = BY_LABEL["req.presign.request"]["subject"]
            refused = await client.request(subject, wanted, 5)
            assert b'"Code":"BadRequest"' in refused.data

    play(story)


# --- executions ---------------------------------------------------------------------------------


async def bid_and_take(node: RawNode, number: int = 1) -> dict[str, Any]:
    """Offer a bid on the next execution and wait until it is taken."""
    ask = await node.inbox.next("AskForBid", number)
    found: dict[str, Any] = ask.payload["Execution"]
    assert await node.say("BidResult", found, Accepted=True) == b"{}"
    taken = await node.inbox.next("BidAccepted", number)
    assert taken.payload["ExecutionID"] == found["ID"]
    assert taken.seq > ask.seq
    return found


def test_a_job_of_an_nfp_client_runs_on_an_independent_node(broker: StartBroker) -> None:
    b = broker(LINKS, SHORT)

    async def story() -> None:
        async with raw_node(nats_url(b), "n-raw") as node:
            await node.handshake()
            with Client(b.url("nfp")) as client:
                asked = asyncio.create_task(call(client, "noop", "hello", who="you"))
                found = await bid_and_take(node)
                assert found["NodeID"] == "n-raw"
                task = found["Job"]["Tasks"][0]
                assert task["Engine"]["Type"] == "noop"
                assert task["Engine"]["Params"]["kwargs"] == {"who": "you"}
                assert isinstance(found["Job"]["Meta"], dict)
                assert (found["ComputeState"], found["Revision"]) == ({"StateType": 1}, 1)
                assert await node.result(found, "hello you\n") == b"{}"
                answer = await asked
                assert answer["stdout"] == "hello you\n"

    play(story)


def test_a_failure_and_a_refused_bid(broker: StartBroker) -> None:
    b = broker(LINKS, SHORT)

    async def story() -> None:
        async with raw_node(nats_url(b), "n-1") as one, raw_node(nats_url(b), "n-2") as other:
            await one.handshake()
            with Client(b.url("nfp")) as client:
                asked = asyncio.create_task(call(client, "noop", "hello"))
                ask = await one.inbox.next("AskForBid")
                found = ask.payload["Execution"]
                await other.handshake()
                event: dict[str, Any] = {
                    "Message": "rejected bid: busy",
                    "Topic": "Exec Scanning",
                    "Timestamp": "2026-01-02T03:04:05Z",
                }
                await one.say("BidResult", found, Accepted=False, Events=[event])
                found = await bid_and_take(other)
                event = {**event, "Message": "boom", "Details": {"IsError": "true"}}
                await other.say("ComputeError", found, Events=[event])
                with pytest.raises(Exception, match="boom"):
                    await asked

    play(story)


def test_a_lost_ack_is_delivered_again_and_nothing_is_refused(broker: StartBroker) -> None:
    b = broker(LINKS, SHORT)

    async def story() -> None:
        async with raw_node(nats_url(b), "n-raw") as node:
            await node.handshake()
            node.acks = False
            with Client(b.url("nfp")) as client:
                asked = asyncio.create_task(call(client, "noop", "hello"))
                first = await node.inbox.next("AskForBid")
                second = await node.inbox.next("AskForBid", 2)
                # The same message: type, sequence and id.
                assert (second.seq, second.payload["Execution"]["ID"]) == (
                    first.seq,
                    first.payload["Execution"]["ID"],
                )
                node.acks = True
                found = first.payload["Execution"]
                await node.say("BidResult", found, Accepted=True)
                await node.inbox.next("BidAccepted")
                await node.result(found, "once\n")
                # The result again, as after a lost ack of ours: acked, and nothing happens.
                assert await node.result(found, "once\n") == b"{}"
                assert (await asked)["stdout"] == "once\n"

    play(story)


def test_an_ack_of_the_second_message_leaves_the_first_pending(broker: StartBroker) -> None:
    b = broker(LINKS, SHORT)

    async def story() -> None:
        async with raw_node(nats_url(b), "n-raw") as node:
            await node.handshake()
            node.acks = False
            with Client(b.url("nfp")) as client:
                asked = [asyncio.create_task(call(client, "noop", "hello")) for _ in range(2)]
                await node.inbox.next("AskForBid", 2)
                first, second = sorted(node.inbox.of("AskForBid")[:2], key=lambda m: m.seq)
                await node.client.publish(second.msg.reply, b"{}")
                # Only what has no ack comes again, and nothing in between is refused.
                again = await node.inbox.next("AskForBid", 3)
                assert again.seq == first.seq
                node.acks = True
                for message in (first, second):
                    found = message.payload["Execution"]
                    await node.say("BidResult", found, Accepted=True)
                    await node.result(found, "done\n")
                assert [a["stdout"] for a in await asyncio.gather(*asked)] == ["done\n"] * 2
                seqs = [m.seq for m in node.inbox.of("AskForBid")]
                assert seqs.count(second.seq) == 1

    play(story)


def test_a_node_that_listens_late_still_gets_its_work(broker: StartBroker) -> None:
    b = broker(LINKS, SHORT)

    async def story() -> None:
        async with raw_node(nats_url(b), "n-raw", listens=False) as node:
            await node.handshake()
            with Client(b.url("nfp")) as client:
                asked = asyncio.create_task(call(client, "noop", "hello"))
                await asyncio.sleep(0.3)
                await node.listen()
                found = await bid_and_take(node)
                await node.result(found, "late\n")
                assert (await asked)["stdout"] == "late\n"

    play(story)


def test_a_cancel_reaches_the_node(broker: StartBroker) -> None:
    b = broker(LINKS, SHORT)

    async def story() -> None:
        async with raw_node(nats_url(b), "n-raw") as node:
            await node.handshake()
            with Client(b.url("nfp")) as client:
                job = await asyncio.to_thread(client.submit, "noop", "hello")
                found = await bid_and_take(node)
                await asyncio.to_thread(job.cancel)
                stop = await node.inbox.next("CancelExecution")
                assert stop.payload["ExecutionID"] == found["ID"]

    play(story)


# --- restarts and outages -----------------------------------------------------------------------


def test_a_killed_broker_goes_on_with_what_a_node_holds(broker: StartBroker) -> None:
    b = broker(LINKS, SHORT)

    async def story() -> None:
        async with raw_node(nats_url(b), "n-raw") as node:
            await node.handshake()
            with Client(b.url("nfp")) as client:
                job = await asyncio.to_thread(client.submit, "noop", "hello")
                found = await bid_and_take(node)
                await asyncio.to_thread(b.kill)
                await asyncio.to_thread(b.start)
                await _reconnected(node)
                assert (await node.heartbeat()).payload["Code"] == "HandshakeRequired"
                again = await node.handshake()
                assert again.payload["reason"] == "node reconnected"
                # What it may have lost is sent again: the same execution, not another.
                second = await node.inbox.next("AskForBid", 2)
                assert second.payload["Execution"]["ID"] == found["ID"]
                await node.result(found, "survived\n")
                answer = await asyncio.to_thread(job.result, timeout=25)
                assert "survived" in str(answer)

    play(story)


async def _reconnected(node: RawNode) -> None:
    await asyncio.to_thread(until, lambda: node.client.is_connected, "the node is on NATS again")
    await node.client.flush()


def test_a_node_that_lost_its_state_is_told_its_work_again(broker: StartBroker) -> None:
    b = broker(LINKS, SHORT)

    async def story() -> None:
        with Client(b.url("nfp")) as client:
            async with raw_node(nats_url(b), "n-raw") as node:
                await node.handshake()
                job = await asyncio.to_thread(client.submit, "noop", "hello")
                found = await bid_and_take(node)
                await node.heartbeat()
            async with raw_node(nats_url(b), "n-raw") as node:
                answer = await node.handshake(received=0)
                assert answer.payload["LastOrchestratorSeqNum"] == 0
                again = await node.inbox.next("AskForBid")
                assert again.payload["Execution"]["ID"] == found["ID"]
                await node.inbox.next("BidAccepted")
                await node.result(found, "again\n")
                assert "again" in str(await asyncio.to_thread(job.result, timeout=25))

    play(story)


def test_a_lost_node_s_work_goes_to_another_and_it_is_told_to_stop(broker: StartBroker) -> None:
    b = broker(LINKS, SHORT.replace("grace = 4.0", "grace = 1.0"))

    async def story() -> None:
        async with raw_node(nats_url(b), "n-1") as lost, raw_node(nats_url(b), "n-2") as other:
            await lost.handshake()
            beats = asyncio.create_task(_beat(lost))
            with Client(b.url("nfp")) as client:
                job = await asyncio.to_thread(client.submit, "noop", "hello")
                first = await bid_and_take(lost)
                beats.cancel()
                await other.handshake()
                beats = asyncio.create_task(_beat(other))
                second = await bid_and_take(other)
                assert second["JobID"] == first["JobID"]
                assert second["ID"] != first["ID"]
                await other.result(second, "other\n")
                assert "other" in str(await asyncio.to_thread(job.result, timeout=25))
                await lost.handshake()
                stop = await lost.inbox.next("CancelExecution")
                assert stop.payload["ExecutionID"] == first["ID"]
                beats.cancel()

    play(story)


async def _beat(node: RawNode) -> None:
    while True:
        await asyncio.sleep(0.3)
        await node.heartbeat()


# --- hostile input ------------------------------------------------------------------------------


def test_hostile_input_is_answered_and_harms_nobody(broker: StartBroker) -> None:
    b = broker(LINKS, SHORT)

    async def story() -> None:
        async with raw_node(nats_url(b), "n-raw") as node:
            await node.handshake()
            for label in labels("decode."):
                data = body(label)
                answer = await node.client.request(node.subject("out.ctrl"), data, 5)
                assert b"BacError" in answer.data
                acked = await node.client.request(node.subject("out.msgs"), data, 5)
                assert acked.data == b"{}"
            other = {"NodeID": "n-victim", "LastOrchestratorSeqNum": 0}
            refused = await node.request("transport.ShutdownNoticeRequest", other)
            assert refused.payload["Code"] == "BadRequest"
            assert (await node.heartbeat()).type == "transport.HeartbeatResponse"

    play(story)
    assert b.is_running
    assert "internal error" not in b.log


def test_the_ready_file_names_nats_and_the_server_ends_with_the_broker(
    broker: StartBroker, fleet: Fleet
) -> None:
    b = broker(LINKS, SHORT)
    assert b.endpoints["nats"].startswith("tcp://127.0.0.1:")
    assert b.stop() == 0

    def is_gone() -> bool:
        async def attempt() -> bool:
            host, _, port = b.endpoints["nats"].removeprefix("tcp://").partition(":")
            try:
                _, writer = await asyncio.open_connection(host, int(port))
            except OSError:
                return True
            writer.close()
            return False

        return asyncio.run(attempt())

    until(is_gone, "nats-server is gone")


def without_payload(version: int) -> bytes:
    """Write a heartbeat that has metadata and no payload, in either version of the envelope."""
    pairs = {"Bacalhau-Type": "transport.HeartbeatRequest", "Bacalhau-PayloadEncoding": "json"}
    content = json.dumps({"metadata": pairs}).encode()
    if version == 2:
        entries = b""
        for key, text in pairs.items():
            entry = bytes([10, len(key)]) + key.encode() + bytes([18, len(text)]) + text.encode()
            entries += bytes([10, len(entry)]) + entry
        content = bytes([10, len(entries)]) + entries
    return bytes([version]) + crc32(content).to_bytes(4, "big") + content


@pytest.mark.parametrize("version", [1, 2])
def test_a_message_without_a_payload_is_an_error(broker: StartBroker, version: int) -> None:
    b = broker(LINKS, SHORT)

    async def story() -> None:
        async with raw_node(nats_url(b), "n-raw") as node:
            await node.handshake()
            data = without_payload(version)
            answer = Opened(await node.client.request(node.subject("out.ctrl"), data, 10))
            assert answer.type == "BacError"
            assert "payload is missing" in answer.payload["Cause"]

    play(story)
