"""The published ZSS client and service, each in its own process, on a real broker."""

import json
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.interop.conftest import StartBroker
from tests.interop.harness import Broker, Fleet, until
from tests.interop.zss_peers import (
    RawClient,
    RawService,
    js_calls,
    js_calls_as_settled,
    start_service,
    until_served,
)

from dragoman import Client, Worker

pytestmark = pytest.mark.interop

LINKS = {"zss": "127.0.0.1:0", "zss_backend": "127.0.0.1:0"}
VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "zss" / "vectors.json").read_text())


#: JavaScript services run many requests side by side, and upstream's broker lets them.
UPSTREAM = "[zss]\ncredit = 100\n"


@pytest.fixture(scope="module")
def zss(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for all tests that leave it running; each has a service of its own in it."""
    fleet = Fleet(tmp_path_factory.mktemp("zss"))
    yield fleet.broker(LINKS, UPSTREAM)
    fleet.end()


@pytest.fixture
def own(broker: StartBroker) -> Broker:
    """A broker for a test that stops it."""
    return broker(links=LINKS, settings=UPSTREAM)


@pytest.fixture
def sid() -> str:
    return f"S{uuid.uuid4().hex[:8]}".upper()


def payloads(told: list[dict[str, Any]]) -> list[Any]:
    return [line["ok"].get("payload") for line in told]


# --- one call ---------------------------------------------------------------------------------


def test_every_kind_of_payload_comes_back_as_it_went(zss: Broker, fleet: Fleet, sid: str) -> None:
    start_service(fleet, zss.endpoints["zss_backend"], sid)
    until_served(zss, sid)
    values = [
        *("x" * size for size in (5, 40, 300, 70_000)),
        *(None, {"a": [1, {"b": None}]}, -7, 1.25, 4_294_967_295, True, False, "größe"),
    ]
    told = js_calls(zss, sid, [["echo", value] for value in values] + [["echo"]])
    assert payloads(told) == [*values, None]
    assert {line["ok"]["status"] for line in told} == {200, 204}


def test_failures_reach_the_caller_with_their_codes_and_words(
    zss: Broker, fleet: Fleet, sid: str
) -> None:
    start_service(fleet, zss.endpoints["zss_backend"], sid)
    until_served(zss, sid)
    told = js_calls(zss, sid.lower(), [["fail"], ["throw"], ["no-such-verb"]])
    assert [line["error"]["code"] for line in told] == [409, 500, 404]
    assert told[0]["error"]["developerMessage"] == "somebody was faster"
    (ghost,) = js_calls(zss, "GHOST", [["echo"]])
    assert ghost["error"]["code"] == 404
    assert ghost["error"]["developerMessage"] == "The resource could not be found."
    assert ghost["error"]["userMessage"] == "The content you requested was not found."


def test_headers_come_back_and_the_instants_are_floats(zss: Broker, fleet: Fleet, sid: str) -> None:
    start_service(fleet, zss.endpoints["zss_backend"], sid)
    until_served(zss, sid)
    (told,) = js_calls(zss, sid, [["headers", 1, {"headers": {"token": "abc"}}]])
    assert told["ok"]["headers"]["token"] == "abc"
    seen = told["ok"]["payload"]
    assert {"micro.cs", "micro.bfer", "micro.bbes", "micro.sr"} <= seen.keys()
    assert seen["micro.cs"] <= seen["micro.bfer"] <= seen["micro.bbes"] <= seen["micro.sr"]


# --- several instances ------------------------------------------------------------------------


def test_three_instances_take_turns(zss: Broker, fleet: Fleet, sid: str) -> None:
    for _ in range(3):
        start_service(fleet, zss.endpoints["zss_backend"], sid)
    until_served(zss, sid, instances=3)
    pids = [p["pid"] for p in payloads(js_calls(zss, sid, [["who"]] * 9))]
    assert pids[:3] == pids[3:6] == pids[6:]
    assert len(set(pids)) == 3


def test_a_killed_instance_gets_no_more_and_with_the_last_the_service_is_gone(
    broker: StartBroker, fleet: Fleet, sid: str
) -> None:
    # A broker that has just begun would give lost instances time to come back.
    zss = broker(links=LINKS, settings="[limits]\nrecovery_grace = 0\n")
    first = start_service(fleet, zss.endpoints["zss_backend"], sid)
    second = start_service(fleet, zss.endpoints["zss_backend"], sid)
    until_served(zss, sid, instances=2)
    first.kill()
    told = js_calls(zss, sid, [["who", None, {"timeout": 15_000}]] * 4)
    assert {p["pid"] for p in payloads(told)} == {second.pid}
    second.kill()
    with RawClient(zss) as client:
        until(lambda: client.call(sid, "who")[0] == 404, "the service is gone", every=0.1)


def test_what_a_killed_instance_had_in_hand_goes_to_another(
    zss: Broker, fleet: Fleet, sid: str
) -> None:
    peers = [start_service(fleet, zss.endpoints["zss_backend"], sid) for _ in range(2)]
    until_served(zss, sid, instances=2)
    with RawClient(zss) as client:
        # Each instance takes one, so that whichever is killed had one in hand.
        for _ in range(2):
            client.send(sid, "slow", 1500)
        peers[0].kill()
        replies = [client.receive() for _ in range(2)]
    assert [(status, said["waited"]) for _, status, said in replies] == [(200, 1500)] * 2


def test_slow_answers_reach_the_right_callers_out_of_order(
    zss: Broker, fleet: Fleet, sid: str
) -> None:
    start_service(fleet, zss.endpoints["zss_backend"], sid)
    until_served(zss, sid)
    calls = [["slow", ms] for ms in (900, 600, 300)]
    told = js_calls_as_settled(zss, sid, calls, together=True)
    assert [line["number"] for line in told] == [2, 1, 0]
    assert [p["waited"] for p in payloads(told)] == [300, 600, 900]


# --- coming and going -------------------------------------------------------------------------


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_broker_that_comes_back_has_its_services_after_one_heartbeat(
    own: Broker, fleet: Fleet, end: signal.Signals, sid: str
) -> None:
    service = start_service(fleet, own.endpoints["zss_backend"], sid)
    until_served(own, sid)
    own.signal(end)
    own.wait()
    own.start()
    until_served(own, sid)
    assert service.is_running
    assert payloads(js_calls(own, sid, [["echo", "back"]])) == ["back"]


def test_a_service_stops_cleanly_and_its_requests_are_404(
    zss: Broker, fleet: Fleet, sid: str
) -> None:
    service = start_service(fleet, zss.endpoints["zss_backend"], sid)
    until_served(zss, sid)
    began = time.monotonic()
    assert service.stop() == 0
    assert time.monotonic() - began < 5
    (told,) = js_calls(zss, sid, [["echo", 1]])
    assert told["error"]["code"] == 404


def test_a_service_may_be_there_before_the_broker(
    broker: StartBroker, fleet: Fleet, sid: str
) -> None:
    zss = broker(links=LINKS)
    zss.stop()
    start_service(fleet, zss.endpoints["zss_backend"], sid)
    zss.start()
    until_served(zss, sid)


def test_the_broker_stops_while_peers_are_connected(own: Broker, fleet: Fleet, sid: str) -> None:
    start_service(fleet, own.endpoints["zss_backend"], sid)
    until_served(own, sid)
    assert own.stop() == 0


# --- what no real peer does --------------------------------------------------------------------


def test_every_vector_of_a_peer_can_be_replayed_and_calls_still_work(
    zss: Broker, fleet: Fleet, sid: str
) -> None:
    start_service(fleet, zss.endpoints["zss_backend"], "REAL")
    until_served(zss, "REAL")
    with RawClient(zss, b"replay#1") as client, RawService(zss, sid, b"PONG#9") as service:
        sockets = {"client->broker": client.socket, "service->broker": service.socket}
        for vector in VECTORS:
            if vector["direction"] in sockets and "[" not in vector["label"]:
                frames = [bytes.fromhex(frame) for frame in vector["frames_hex"]]
                sockets[vector["direction"]].send_multipart(frames)
        assert payloads(js_calls(zss, "REAL", [["echo", "alive"]])) == ["alive"]
    assert zss.is_running


def test_a_client_without_an_identity_of_its_own_is_served(
    zss: Broker, fleet: Fleet, sid: str
) -> None:
    start_service(fleet, zss.endpoints["zss_backend"], sid)
    until_served(zss, sid)
    with RawClient(zss, identity=None) as client:
        assert client.call(sid, "echo", "hi") == (200, "hi")


def test_no_service_answers_for_another(zss: Broker, sid: str) -> None:
    with (
        RawClient(zss) as client,
        RawService(zss, sid, b"PONG#1") as honest,
        RawService(zss, f"{sid}X", b"OTHER#1") as liar,
    ):
        assert (honest.smi("UP"), liar.smi("HEARTBEAT")) == (200, 200)
        client.send(sid, "PING")
        request = honest.next_request()
        liar.reply(request, "mine")
        assert liar.smi("HEARTBEAT") == 200
        honest.reply(request, "true")
        assert client.receive()[1:] == (200, "true")


def test_smi_answers_as_upstreams_broker_does(zss: Broker, sid: str) -> None:
    with RawService(zss, sid, b"PONG#1") as service:
        verbs = ["UP", "UP", "HEARTBEAT", "DOWN", "DOWN", "HEARTBEAT", "FLY"]
        assert [service.smi(verb) for verb in verbs] == [200, 500, 200, 200, 500, 200, 500]


# --- our extensions, as upstream's peers can use them --------------------------------------------


def test_titanic_keeps_a_request_for_a_service_that_comes_after_a_restart(
    own: Broker, fleet: Fleet, sid: str
) -> None:
    with RawClient(own) as client:
        rid = client.send(f"TITANIC/{sid}", "echo", "later")
        assert client.receive() == (rid, 202, {"job": rid, "state": "queued"})
        assert client.call("TITANIC", "RESULT", rid) == (202, {"job": rid, "state": "queued"})
    own.kill()
    own.start()
    start_service(fleet, own.endpoints["zss_backend"], sid)
    with RawClient(own, b"raw#2") as client:
        until(
            lambda: client.call("TITANIC", "RESULT", rid) == (200, "later"), "the result is there"
        )
    (told,) = js_calls(own, "titanic", [["result", rid]])
    assert told["ok"]["payload"] == "later"


def test_the_same_request_id_runs_once(zss: Broker, fleet: Fleet, sid: str) -> None:
    start_service(fleet, zss.endpoints["zss_backend"], sid)
    until_served(zss, sid)
    rid = str(uuid.uuid4())
    with RawClient(zss) as client, RawClient(zss, b"raw#2") as again:
        first = client.call(sid, "who", 1, rid=rid)
        assert again.call(sid, "who", 1, rid=rid) == first
        assert again.call(sid, "who", 2, rid=rid)[0] == 409


def test_versions_of_a_real_service_are_told_apart(zss: Broker, fleet: Fleet, sid: str) -> None:
    old = start_service(fleet, zss.endpoints["zss_backend"], f"{sid}@1.9.0")
    new = start_service(fleet, zss.endpoints["zss_backend"], f"{sid}@1.10.0")
    with RawClient(zss) as client:

        def pid(sversion: str) -> object:
            status, said = client.call(sid, "who", sversion=sversion)
            return said["pid"] if status == 200 else None

        until(lambda: pid("1.9.0") == old.pid, "the old version answers", every=0.05)
        until(lambda: pid("1.10.0") == new.pid, "the new version answers", every=0.05)
        assert {pid("*") for _ in range(4)} == {new.pid}
        assert client.call(sid, "who", sversion="2.0.0")[0] == 404


# --- with peers of ours --------------------------------------------------------------------------


def test_our_client_calls_their_service_and_their_client_ours(
    zss: Broker, fleet: Fleet, sid: str
) -> None:
    start_service(fleet, zss.endpoints["zss_backend"], sid)
    until_served(zss, sid)
    url = "zss://" + zss.endpoints["zss_backend"].removeprefix("tcp://")
    worker = Worker(url, service="math", own_process_beats=False)

    @worker.task
    def add(x: int, y: int) -> int:
        return x + y

    with worker, Client(zss.url("zss")) as client:
        assert client.call(sid.lower(), "echo", "hi", timeout=10) == "hi"
        assert client.call("math", "add", x=2, y=3, timeout=10) == 5
        (told,) = js_calls(zss, "math", [["add", {"x": 2, "y": 3}]])
        assert told["ok"]["payload"] == 5
        (told,) = js_calls(zss, "math", [["add", {"x": "two"}]])
        assert told["error"]["code"] == 500
        assert "argument: 'y'" in told["error"]["developerMessage"]
