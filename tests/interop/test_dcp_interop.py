"""DCP peers written from the text, in both widths, on a real broker."""

import json
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop.conftest import StartBroker
from tests.interop.dcp_peer import (
    PING,
    PONG,
    RECONNECT,
    REGISTRATION,
    REPLY,
    REQUEST,
    Peer,
)
from tests.interop.harness import Broker, Fleet, Process, until

from dragoman import Client, Worker
from dragoman.sdk.errors import JobFailed

pytestmark = pytest.mark.interop

LINKS = {"dcp": "127.0.0.1:0"}
VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "dcp" / "vectors.json").read_text())
NARROW, WIDE = 1, 4


@pytest.fixture(scope="module")
def dcp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for all tests that leave it running; each has services of its own in it."""
    fleet = Fleet(tmp_path_factory.mktemp("dcp"))
    yield fleet.broker(LINKS)
    fleet.end()


@pytest.fixture
def own(broker: StartBroker) -> Broker:
    """A broker for a test that stops it."""
    return broker(links=LINKS)


@pytest.fixture
def echo() -> bytes:
    """A service that nobody else has."""
    return b"echo-" + uuid.uuid4().hex[:8].encode()


def start_worker(fleet: Fleet, dcp: Broker, service: bytes, width: int = WIDE) -> Process:
    where, name = dcp.endpoints["dcp"], service.decode()
    return fleet.python("-m", "tests.interop.dcp_peer", where, name, "--width", str(width))


def peer(dcp: Broker, identity: bytes = b"", width: int = NARROW) -> Peer:
    return Peer(dcp.endpoints["dcp"], identity, width)


def until_served(dcp: Broker, service: bytes) -> None:
    """Wait until somebody answers; requests wait for workers, so one is enough."""
    with peer(dcp) as probe:
        probe.ask(service, b"probe", b"there?")
        assert probe.answer() == (b"probe", [b"there?"])


@pytest.mark.parametrize("of_client", [NARROW, WIDE])
@pytest.mark.parametrize("of_worker", [NARROW, WIDE])
def test_peers_of_either_width_work_with_each_other(
    dcp: Broker, fleet: Fleet, of_client: int, of_worker: int, echo: bytes
) -> None:
    worker = start_worker(fleet, dcp, echo, of_worker)
    with peer(dcp, b"C1", of_client) as client:
        client.ask(echo, b"m1", b"one", b"", b"three")
        assert client.answer() == (b"m1", [b"one", b"", b"three"])
    assert worker.is_running


def test_a_worker_idles_past_many_pings_and_survives_a_restart_of_the_broker(
    own: Broker, fleet: Fleet, echo: bytes
) -> None:
    worker = start_worker(fleet, own, echo)
    until_served(own, echo)
    with peer(own, b"idle") as idle:
        idle.register(b"idle")
        for _ in range(3):
            idle.say(PING)
            assert idle.hear() == (PONG, [])
    own.restart()
    until_served(own, echo)
    own.kill()
    own.start()
    until_served(own, echo)
    assert worker.is_running


def test_a_ping_of_a_stranger_is_answered_with_reconnect(dcp: Broker) -> None:
    for width in (NARROW, WIDE):
        with peer(dcp, width=width) as stranger:
            stranger.say(PING)
            assert stranger.hear() == (RECONNECT, [])


def test_the_second_of_two_clients_is_served_when_the_worker_is_free(
    dcp: Broker, fleet: Fleet, echo: bytes
) -> None:
    start_worker(fleet, dcp, echo)
    with peer(dcp, b"C1") as first, peer(dcp, b"C2") as second:
        first.ask(echo, b"1", b"slow 0.5")
        second.ask(echo, b"2", b"quick")
        assert second.answer() == (b"2", [b"quick"])
        assert first.answer() == (b"1", [b"slow 0.5"])


def test_many_requests_are_in_flight_and_told_apart_by_metadata(
    dcp: Broker, fleet: Fleet, echo: bytes
) -> None:
    for _ in range(3):
        start_worker(fleet, dcp, echo)
    with peer(dcp) as client:
        for n in range(200):
            client.ask(echo, b"m%d" % n, b"d%d" % n)
        got = dict(client.answer() for _ in range(200))
    assert got == {b"m%d" % n: [b"d%d" % n] for n in range(200)}


def test_work_is_passed_on_and_the_first_client_gets_the_reply(
    dcp: Broker, fleet: Fleet, echo: bytes
) -> None:
    start_worker(fleet, dcp, echo)
    start_worker(fleet, dcp, b"back-" + echo, NARROW)
    with peer(dcp, b"C1") as client:
        client.ask(echo, b"m", b"pass back-" + echo, b"the rest")
        assert client.answer() == (b"m", [b"passed on", b"the rest"])


def test_a_busy_worker_that_pings_is_given_more(dcp: Broker, echo: bytes) -> None:
    with peer(dcp, b"W1") as worker, peer(dcp, b"C1", WIDE) as client:
        worker.register(echo)
        client.ask(echo, b"1", b"a")
        client.ask(echo, b"2", b"b")
        first = worker.next_request()
        assert worker.hears_nothing()
        worker.say(PING)
        got = [worker.hear(), worker.hear()]
        assert (PONG, []) in got
        (second,) = [frames for kind, frames in got if kind == REQUEST]
        worker.reply(second, b"B")
        worker.reply(first, b"A")
        assert [client.answer(), client.answer()] == [(b"2", [b"B"]), (b"1", [b"A"])]


def test_a_killed_workers_request_goes_to_another(
    broker: StartBroker, fleet: Fleet, echo: bytes
) -> None:
    # A worker of this kind is silent while it computes: only its lease tells that it is dead.
    dcp = broker(links=LINKS, settings="[dcp]\nmissed_allowed = 3\nmissed_allowed_busy = 4\n")
    first = start_worker(fleet, dcp, echo)
    until_served(dcp, echo)
    with peer(dcp, b"C1") as client:
        client.ask(echo, b"m", b"slow 1")
        # In the middle of it, or on its way there: the request must not be lost either way.
        first.kill()
        second = start_worker(fleet, dcp, echo)
        assert client.answer() == (b"m", [b"slow 1"])
    assert second.is_running


def test_every_vector_can_be_sent_and_the_broker_still_works(own: Broker, fleet: Fleet) -> None:
    start_worker(fleet, own, b"real")
    until_served(own, b"real")
    with peer(own, b"hostile") as hostile:
        for vector in VECTORS:
            hostile.socket.send_multipart([bytes.fromhex(f) for f in vector["frames_hex"]])
        until_served(own, b"real")
    assert own.is_running
    assert own.stop() == 0


def test_a_reply_of_somebody_who_was_not_asked_reaches_nobody(dcp: Broker, echo: bytes) -> None:
    with (
        peer(dcp, b"C1") as client,
        peer(dcp, b"W1") as worker,
        peer(dcp, b"W2") as liar,
        peer(dcp, b"X") as stranger,
    ):
        worker.register(echo)
        liar.register(b"other")
        client.ask(echo, b"m", b"d")
        request = worker.next_request()
        for other in (liar, stranger):
            other.reply(request, b"false")
            other.say(PING)
            assert other.hear().kind in (PONG, RECONNECT)
        worker.reply(request, b"true")
        assert client.answer() == (b"m", [b"true"])


def test_any_bytes_are_a_service(dcp: Broker) -> None:
    with peer(dcp, b"W1") as worker, peer(dcp) as client:
        for name in (b"", b"\x00\xff", b"all", b"datastore writer"):
            worker.register(name)
            client.ask(name, b"m", b"d")
            request = worker.next_request()
            assert request[0] == name
            worker.reply(request, b"ok")
            assert client.answer() == (b"m", [b"ok"])


def test_a_request_nobody_serves_gets_an_empty_reply(broker: StartBroker) -> None:
    dcp = broker(
        links=LINKS, settings="[services.ghost]\npatience = 0\n\n[limits]\nrecovery_grace = 0\n"
    )
    with peer(dcp, b"C1") as client:
        client.ask(b"ghost", b"m", b"d")
        assert client.hear() == (REPLY, [b"C1", b"", b"m", b""])


def test_the_broker_stops_cleanly_with_peers_connected(
    own: Broker, fleet: Fleet, echo: bytes
) -> None:
    start_worker(fleet, own, echo)
    until_served(own, echo)
    own.signal(signal.SIGTERM)
    assert own.wait() == 0


def test_our_client_and_worker_meet_those_of_the_text(
    dcp: Broker, fleet: Fleet, echo: bytes
) -> None:
    start_worker(fleet, dcp, echo)
    worker = Worker(dcp.url("dcp"), service="math", name="w1", own_process_beats=False)

    @worker.task
    def add(x: int, y: int) -> int:
        return x + y

    @worker.task
    def fail() -> None:
        raise ValueError("on purpose")

    @worker.fallback
    def parts(*parts: bytes) -> list[bytes]:
        return [part.upper() for part in parts]

    with worker, Client(dcp.url("dcp")) as client:
        assert client.call("math", "add", x=2, y=3, timeout=10) == 5
        assert client.call(echo.decode(), "anything", timeout=10)[0] is not None
        with pytest.raises(JobFailed, match="on purpose"):
            client.call("math", "fail", timeout=10)
        with peer(dcp, b"C1", WIDE) as plain:
            plain.ask(b"math", b"m", b"one", b"two", b"three")
            assert plain.answer() == (b"m", [b"ONE", b"TWO", b"THREE"])


def test_our_worker_is_back_after_a_restart_of_the_broker(own: Broker) -> None:
    worker = Worker(own.url("dcp"), service="math", name="w1", own_process_beats=False)

    @worker.task
    def add(x: int, y: int) -> int:
        return x + y

    with worker:
        own.kill()
        own.start()
        with peer(own, b"C1") as client:
            client.ask(b"math", b"m", b"add", b"\x92\x92\x02\x03\x80")
            assert client.answer() == (b"m", [b"\x05"])


def test_a_second_registration_replaces_the_first(dcp: Broker, echo: bytes) -> None:
    with peer(dcp, b"W1") as worker, peer(dcp) as client:
        worker.register(b"old-" + echo)
        worker.register(b"new-" + echo)
        client.ask(b"new-" + echo, b"m", b"d")
        assert worker.next_request()[0] == b"new-" + echo
        client.ask(b"old-" + echo, b"n", b"d")
        assert worker.hears_nothing()
        worker.say(REGISTRATION, b"old-" + echo)
        until(lambda: worker.hear().kind == REQUEST, "the other request comes")
