"""What an operator of compute nodes does: lets them in, keeps them out, asks why a job waits."""

import json
from typing import Any

import pytest
from tests.interop.conftest import StartBroker
from tests.interop.harness import Broker, Fleet, run_dragoman, until
from tests.interop.ncl_workers import play, start_worker
from tests.interop.raw_ncl import node_info, raw_node
from tests.interop.test_ncl_interop import LINKS, SHORT

from dragoman import AsyncClient, Client

pytestmark = pytest.mark.interop

_NEVER = "2026-01-02T03:04:05Z"


def nodes(broker: Broker, *words: str) -> Any:
    """Run the command as an operator would."""
    done = run_dragoman("nodes", *words, "--json", "--url", broker.url("nfp"), at_most=90)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.timeout(240)
def test_an_operator_lets_nodes_in_and_keeps_them_out(broker: StartBroker, fleet: Fleet) -> None:
    b = broker(LINKS, SHORT.replace("[ncl]", "[ncl]\nmanual_approval = true"))
    start_worker(fleet, b.endpoints["nats"])
    with Client(b.url("nfp")) as client:

        def ask(task: str, *args: Any, **kwargs: Any) -> Any:
            return client.call("mmi.service.broker", task, *args, timeout=30, **kwargs)

        (row,) = until(lambda: ask("list_nodes"), "the node has joined", 60, every=0.2)
        assert (row["node"], row["membership"], row["slots"]) == ("w-1", "pending", 0)
        job = client.submit("probe", "add", x=1, y=2)
        assert [c["worker"] for c in ask("why", job.id)["candidates"]] == ["w-1"]
        assert nodes(b, "approve", "w-1") == {"node": "w-1", "membership": "approved"}
        assert job.result(60) == 3
        b.restart()
        assert nodes(b, "list")[0]["membership"] == "approved"
        ask("reject_node", node="w-1")

        def is_away() -> bool:
            return bool(ask("list_nodes")[0]["status"] == "rejected")

        until(is_away, "it is sent away", 30, every=0.2)
        assert ask("list_services") == []
        ask("approve_node", node="w-1")
        assert client.call("probe", "add", x=3, y=4, timeout=60) == 7


def with_capacity(name: str, cpu: int) -> dict[str, Any]:
    """Describe a node that has the service and so many cores."""
    info = node_info(name)["ComputeNodeInfo"]
    capacity = info["MaxCapacity"] | {"CPU": cpu}
    told = {"MaxCapacity": capacity, "AvailableCapacity": capacity}
    return {"ComputeNodeInfo": info | told, "Labels": {"dragoman.service": "probe"}}


def test_why_knows_bids_and_capacity(broker: StartBroker) -> None:
    b = broker(LINKS, SHORT + "[services.probe]\ncpu = 2\n")

    async def story() -> None:
        async with raw_node(b.endpoints["nats"], "n-small") as small:
            await small.handshake(**with_capacity("n-small", 1))
            async with raw_node(b.endpoints["nats"], "n-picky") as picky:
                await picky.handshake(**with_capacity("n-picky", 4))
                async with AsyncClient(b.url("nfp")) as client:
                    job = await client.submit("probe", "add", x=1, y=2)
                    asked = await picky.inbox.next("AskForBid")
                    events = [{"Message": "no licence here", "Topic": "", "Timestamp": _NEVER}]
                    bid = {"Accepted": False, "Events": events}
                    await picky.say("BidResult", asked.payload["Execution"], **bid)

                    async def standings() -> dict[str, Any]:
                        found = await client.call("mmi.service.broker", "why", job.id, timeout=10)
                        return {c["worker"]: c for c in found["candidates"]}

                    found = await standings()
                    while "n-picky" not in found or found["n-picky"]["standing"] != "refused":
                        found = await standings()
                    assert "no licence here" in found["n-picky"]["detail"]
                    assert found["n-small"]["standing"] == "lacks_capacity"
                    assert "has cpu 1" in found["n-small"]["detail"]

    play(story)


def test_a_node_that_shut_down_is_gone_and_a_silent_one_is_unknown(broker: StartBroker) -> None:
    b = broker(LINKS, SHORT.replace("disconnect_timeout = 3.0", "disconnect_timeout = 1.0"))

    async def story() -> None:
        async with (
            raw_node(b.endpoints["nats"], "n-leaves") as leaves,
            raw_node(b.endpoints["nats"], "n-silent") as silent,
            AsyncClient(b.url("nfp")) as client,
        ):
            await leaves.handshake()
            await silent.handshake()
            await leaves.request("transport.ShutdownNoticeRequest", {"NodeID": "n-leaves"})
            wanted = {"n-leaves": "gone", "n-silent": "unknown"}
            while wanted != {
                row["node"]: row["status"]
                for row in await client.call("mmi.service.broker", "list_nodes", timeout=10)
            }:
                pass

    play(story)
