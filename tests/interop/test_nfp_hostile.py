"""What no well-behaved peer does, over real sockets; and the reading that follows the text."""

import json
import os
import time
from typing import Any

import pytest
import zmq
from tests.interop.conftest import StartBroker
from tests.interop.harness import until
from tests.interop.raw_nfp import (
    BROKER,
    CLIENT,
    DISCONNECT,
    EVENT,
    KEEPALIVE,
    OPEN,
    POST,
    RESPONSE,
    WORKER,
    Raw,
    RawClient,
    RawWorker,
    new_id,
    post_body,
    until_workers,
)

from dragoman import Client, Worker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(150)]


def serve_one(client: RawClient, worker: RawWorker, result: Any = 1) -> None:
    """Let a job pass: the proof that all is well."""
    uuid = client.post(worker.service)
    whom, job, _ = worker.job()
    assert job == uuid
    worker.finish(whom, uuid, result)
    statuses = [client.reply(uuid)[0], client.reply(uuid)[0]]
    assert statuses[0] == "202"
    assert statuses[1] == "200"


def ready_and_heard(worker: RawWorker) -> None:
    """Say READY and wait until the broker has heard it.

    A job that overtakes it may go down with the socket of before, whose good-bye is not certain to
    leave; the broker asks for it again, which takes longer than this test.
    """
    worker.ready()
    worker.send(WORKER, OPEN)
    while worker.get()[1] != OPEN:
        pass


def reply_of_text(client: Raw, uuid: bytes) -> tuple[bytes, bytes, bytes]:
    """The next message about a job: command, status, body."""
    for frames in client.stream(10.0):
        if frames[3] == uuid:
            return frames[1], frames[4], frames[5]
    raise AssertionError(f"nothing about {uuid!r}")


# --- names ------------------------------------------------------------------------------------


def test_a_name_that_is_taken_over_serves_on_and_the_old_socket_harms_nobody(
    broker: StartBroker,
) -> None:
    endpoint = broker().endpoints["nfp"]
    with RawClient(endpoint, b"c") as client, RawWorker(endpoint, b"w") as old:
        old.ready()
        until_workers(endpoint, "w")
        serve_one(client, old)
        with RawWorker(endpoint, b"w") as new:
            new.ready()
            # The old socket has lost its name: what it says now comes from an unknown one.
            old.send(WORKER, DISCONNECT, b"raw")
            old.beat()
            old.finish(b"c", new_id())
            serve_one(client, new)
            rows = client.manage("list_workers")
            assert [r["name"] for r in rows if r["dialect"] == "nfp"] == ["w"]
            serve_one(client, new)


def test_a_worker_that_reconnects_again_and_again_is_one_worker(broker: StartBroker) -> None:
    endpoint = broker().endpoints["nfp"]
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with RawClient(endpoint, b"c") as client:
        for _ in range(20):
            # As NorFab's worker does: good-bye on the old socket, READY on a new one, at once.
            with RawWorker(endpoint, b"restless", context=context) as worker:
                ready_and_heard(worker)
                serve_one(client, worker)
                worker.send(WORKER, DISCONNECT, b"raw")
        with RawWorker(endpoint, b"restless", context=context) as worker:
            ready_and_heard(worker)
            serve_one(client, worker)
        assert not client.jobs("queued")
        assert not client.jobs("running")
        assert len(client.jobs("succeeded")) == 21
    context.term()


def test_names_that_are_no_text_are_refused_to_workers_and_served_to_clients(
    broker: StartBroker,
) -> None:
    endpoint = broker().endpoints["nfp"]
    with (
        RawClient(endpoint, b"\xff\xfe\x01") as odd,
        RawWorker(endpoint, b"\xc3\x28") as impostor,
        RawWorker(endpoint, b"w") as worker,
    ):
        impostor.ready()
        assert impostor.get()[:2] == [BROKER, DISCONNECT]
        worker.ready()
        until_workers(endpoint, "w")
        serve_one(odd, worker)
        # Neither job ids nor services nor targets of bytes get through.
        for service, target, uuid in (
            (b"raw", b"any", b"\xff\xfe"),
            (b"\xff", b"any", new_id()),
            (b"raw", b"\xff\xfe", new_id()),
            (b"raw", b"any", b""),
            (b"raw", b"any", b"x" * 10_000),
        ):
            odd.ask(POST, service, target, uuid, post_body())
            frames = odd.get()
            assert len(frames) == 6
            assert frames[4] == b"400"
        for service in (b"all", b"mmi.service.broker", b"\xff", b""):
            with RawWorker(endpoint, b"greedy-" + new_id()[:4], service) as greedy:
                greedy.ready()
                assert greedy.get()[:2] == [BROKER, DISCONNECT]
        serve_one(odd, worker)


# --- garbage and floods -----------------------------------------------------------------------


def test_garbage_is_answered_or_dropped_and_others_are_served(broker: StartBroker) -> None:
    b = broker()
    endpoint = b.endpoints["nfp"]
    with RawClient(endpoint, b"c") as client, RawWorker(endpoint, b"w") as worker:
        worker.ready()
        until_workers(endpoint, "w")
        random = os.urandom
        shapes: list[list[bytes]] = [
            [],
            [b""],
            [random(6)],
            [CLIENT],
            [CLIENT, POST],
            [CLIENT, POST, b"raw", b"any", new_id()],
            [CLIENT, random(4), b"raw", b"any", new_id(), b"{}"],
            [CLIENT, b"", b"", b"", b"", b""],
            [WORKER],
            [WORKER, b"0x05"],
            [WORKER, RESPONSE, b"c", b"", new_id(), b"abc", b"{}"],
            [WORKER, EVENT, b"c", b"", new_id(), b"200", b"not json"],
            [WORKER, KEEPALIVE],
            [BROKER, KEEPALIVE, b"raw"],
            [random(1_000_000)],
            [CLIENT, POST, b"raw", b"any", new_id(), b'{"task":"x","kwargs":{}}', *[b"more"] * 500],
        ]
        with Raw(endpoint, b"garbler") as garbler:
            for _ in range(5):
                for frames in shapes:
                    garbler.socket.send_multipart(frames or [b""])
                    garbler.send(*frames)
            serve_after_garbage(client, worker)
    assert b.is_running
    assert "internal error" not in b.log


def serve_after_garbage(client: RawClient, worker: RawWorker) -> None:
    """Let the garbage's own jobs pass first: some of it was whole."""
    uuid = client.post()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        whom, job, _ = worker.job()
        worker.finish(whom, job)
        if job == uuid:
            break
    assert client.reply(uuid)[0] == "202"
    assert client.reply(uuid)[0] == "200"


def test_one_client_that_floods_does_not_starve_another(broker: StartBroker) -> None:
    endpoint = broker().endpoints["nfp"]
    with (
        RawClient(endpoint, b"flood") as flood,
        RawClient(endpoint, b"modest") as modest,
        RawWorker(endpoint, b"w") as worker,
    ):
        worker.ready()
        until_workers(endpoint, "w")
        for _ in range(5000):
            flood.post()
        until(lambda: modest.manage("show_totals")["jobs"] >= 5000, "the flood is in")
        uuid = modest.post()
        served = 0
        while True:
            whom, job, _ = worker.job()
            worker.finish(whom, job)
            served += 1
            if job == uuid:
                break
        # What the worker had already been given comes first, then the two take turns.
        assert served <= 110


# --- events -----------------------------------------------------------------------------------


def test_what_a_worker_publishes_reaches_every_subscribed_client(broker: StartBroker) -> None:
    b = broker()
    worker = Worker(b.url(), service="weather", name="station", own_process_beats=False)
    with worker, Client(b.url()) as client, RawClient(b.endpoints["nfp"], b"raw") as raw:
        until_workers(b.endpoints["nfp"], "station")
        tag = new_id()
        raw.ask(b"0x06", b"events.service.broker", b"all", tag,
                json.dumps({"topics": ["weather.*"], "after": 0}).encode())  # fmt: skip
        assert raw.reply(tag)[0] == "200"
        feed = client.subscribe("weather.*", after=0)
        for degrees in (20, 21, 22):
            worker.publish("weather.bern", {"degrees": degrees})
        worker.publish("news.bern", {"rain": True})
        worker.publish("weather.uri", {"degrees": 3})
        told = [next(feed) for _ in range(4)]
        feed.close()  # type: ignore[attr-defined]
        assert [t.topic for t in told] == ["weather.bern"] * 3 + ["weather.uri"]
        assert [t.event["degrees"] for t in told] == [20, 21, 22, 3]
        heard = [raw.reply(tag, EVENT)[1] for _ in range(4)]
        assert [h["event"]["degrees"] for h in heard] == [20, 21, 22, 3]
        assert [h["seq"] for h in heard] == [t.seq for t in told]


# --- the reading of the text ------------------------------------------------------------------


def test_peers_that_read_the_text_literally_are_answered_in_kind(broker: StartBroker) -> None:
    b = broker()
    endpoint = b.endpoints["nfp"]
    with Raw(endpoint, b"t1") as one, Raw(endpoint, b"t2") as two, Raw(endpoint, b"tc") as client:
        for worker in (one, two):
            worker.send(WORKER, b"\x00")
            assert worker.get()[:2] == [BROKER, b"\x00"]
            worker.send(WORKER, b"\x01", b"text")
        until_workers(endpoint, "t1", "t2")
        client.send(CLIENT, b"\x00", b'{"push": true}')
        assert client.get()[:2] == [BROKER, b"\x00"]

        # A list of the text: names with commas.
        uuid = new_id()
        client.send(CLIENT, b"\x04", b"text", b"t1,t2", uuid, post_body())
        for worker in (one, two):
            header, command, whom, empty, job, body = worker.get()
            assert (header, command, whom, empty, job) == (BROKER, b"\x04", b"tc", b"", uuid)
            said = json.dumps({worker.identity.decode(): {"result": 1, "failed": False}}).encode()
            worker.send(WORKER, b"\x05", whom, b"", job, b"200", said)
        command, status, body = reply_of_text(client, uuid)
        assert (command, status) == (b"\x05", b"202")
        assert sorted(json.loads(body)["workers"]) == ["t1", "t2"]
        for _ in range(2):
            command, status, _ = reply_of_text(client, uuid)
            assert (command, status) == (b"\x05", b"200")

        # The result can be asked for again, and a job that is unknown cannot be cancelled.
        client.send(CLIENT, b"\x06", b"text", b"all", uuid, b"")
        assert reply_of_text(client, uuid)[:1] == (b"\x05",)
        unknown = new_id()
        client.send(CLIENT, b"\x07", b"text", b"all", unknown, b"")
        command, status, _ = reply_of_text(client, unknown)
        assert command == b"\x05"
        assert status in (b"400", b"404")

        # Peers of both readings work together.
        with RawClient(endpoint, b"ascii") as other:
            asked = other.post(b"text", b"t1")
            _, command, whom, _, job, _ = one.get()
            assert (command, whom, job) == (b"\x04", b"ascii", asked)
            one.send(WORKER, b"\x05", whom, b"", job, b"200", b'{"t1":{"result":2}}')
            assert other.reply(asked)[0] == "202"
            assert other.reply(asked)[0] == "200"
