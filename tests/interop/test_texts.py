"""DCP, ZSS and memo01 to the letter: peers on plain pyzmq and pynng, written from the texts."""

from collections.abc import Iterator
from typing import Any

import cbor2
import msgpack
import pynng
import pytest
import zmq

from dragoman import Client, JobFailed, Worker
from dragoman.testing.harness import LocalBroker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

REGISTER, PING, PONG, REQUEST, REPLY = b"\x01", b"\x02", b"\x03", b"\x04", b"\x05"


LINKS = ("dcp", "zss", "zss_backend", "memo", "nfp")


@pytest.fixture(scope="module")
def site() -> Iterator[LocalBroker]:
    with LocalBroker(*LINKS, dcp={"takes_named_clients": True}) as broker:
        yield broker


class Dealer:
    """A DEALER socket with an identity."""

    def __init__(self, endpoint: str, identity: bytes) -> None:
        self.socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.IDENTITY, identity)
        self.socket.connect(endpoint)

    def send(self, *frames: bytes) -> None:
        self.socket.send_multipart(frames)

    def get(self) -> list[bytes]:
        assert self.socket.poll(10_000), "nothing came"
        found: list[bytes] = self.socket.recv_multipart()
        return found

    def is_silent(self) -> bool:
        return not self.socket.poll(300)


@pytest.fixture
def dealers(site: LocalBroker, request: pytest.FixtureRequest) -> Iterator[Any]:
    made: list[Dealer] = []

    def make(link: str, name: str) -> Dealer:
        identity = f"{name}-{request.node.name}"[:60].encode()
        made.append(Dealer(site.endpoints[link], identity))
        return made[-1]

    yield make
    for dealer in made:
        dealer.socket.close()


# --- DCP ----------------------------------------------------------------------------------------


def dcp(kind: bytes, *parts: bytes) -> tuple[bytes, ...]:
    return (b"", b"DGBX\x01", kind, *parts)


def registered(dealer: Dealer, service: bytes) -> Dealer:
    dealer.send(*dcp(REGISTER, service))
    assert dealer.get() == [*dcp(REGISTER, service)]
    return dealer


def identity(dealer: Dealer) -> bytes:
    found = dealer.socket.getsockopt(zmq.IDENTITY)
    assert isinstance(found, bytes)
    return found


def test_a_dcp_request_that_is_passed_on_with_other_metadata_keeps_its_client(
    dealers: Any,
) -> None:
    front, back = (
        registered(dealers("dcp", "f"), b"front"),
        registered(dealers("dcp", "b"), b"back"),
    )
    client = dealers("dcp", "c")
    client.send(*dcp(REQUEST, b"front", b"", b"mine", b"", b"data"))
    assert front.get() == [*dcp(REQUEST, b"front", identity(client), b"", b"mine", b"", b"data")]
    front.send(*dcp(REQUEST, b"back", identity(client), b"", b"changed", b"two", b"", b"half"))
    assert back.get()[3:] == [b"back", identity(client), b"", b"changed", b"two", b"", b"half"]
    back.send(*dcp(REPLY, identity(client), b"", b"changed", b"two", b"", b"done"))
    assert client.get() == [*dcp(REPLY, identity(client), b"", b"changed", b"two", b"", b"done")]


def test_a_dcp_address_is_inserted_if_and_only_if_it_is_missing(dealers: Any) -> None:
    worker = registered(dealers("dcp", "w"), b"named")
    one, other = dealers("dcp", "1"), dealers("dcp", "2")
    other.send(*dcp(PING))
    other.get()
    one.send(*dcp(REQUEST, b"named", identity(other), b"", b"m", b"", b"data"))
    assert worker.get()[4] == identity(other)
    worker.send(*dcp(REPLY, identity(other), b"", b"m", b"", b"for the other"))
    assert other.get()[-1] == b"for the other"
    assert one.is_silent()


def test_a_dcp_worker_gets_more_only_when_it_has_responded(dealers: Any) -> None:
    worker, client = registered(dealers("dcp", "w"), b"one"), dealers("dcp", "c")
    for tag in (b"1", b"2", b"3"):
        client.send(*dcp(REQUEST, b"one", b"", tag, b"", b"data"))
    assert worker.get()[6] == b"1"
    assert worker.is_silent()
    worker.send(*dcp(PING))  # "Respond with a heartbeat to ask for more work"
    assert {worker.get()[2], worker.get()[2]} == {PONG, REQUEST}
    worker.send(*dcp(REPLY, identity(client), b"", b"1", b"", b"done"))
    assert worker.get()[6] == b"3"
    assert client.get()[5:] == [b"1", b"", b"done"]


@pytest.mark.parametrize("value", [{(1, 2): 3}, [{"deep": {frozenset(): 1}}]])
def test_a_value_without_a_form_in_dcp_is_refused_and_never_raw_bytes(
    site: LocalBroker, value: Any
) -> None:
    made = Worker(site.url("dcp"), service="values", own_process_beats=False)

    @made.task
    def give() -> Any:
        return value

    with made, Client(site.url("dcp")) as client:
        with pytest.raises(JobFailed, match="map key"):
            client.call("values", "give", timeout=20)
        with pytest.raises(Exception, match="map key"):
            client.call("values", "give", value, timeout=20)


# --- ZSS ----------------------------------------------------------------------------------------


def packed(value: Any) -> bytes:
    found: bytes = msgpack.packb(value, use_bin_type=False)
    return found


def zss(kind: bytes, rid: bytes, sid: str, verb: str, payload: Any, *, version: str = "*") -> Any:
    address = packed({"sid": sid, "sversion": version, "verb": verb})
    return (b"ZSS:0.0", kind, rid, address, packed({}), b"", packed(payload))


def up(dealer: Dealer, sid: str, smi: str = "SMI", verb: str = "UP") -> Dealer:
    dealer.send(identity(dealer), *zss(b"REQ", b"u", smi, verb, sid))
    assert dealer.get()[5] == b"200"
    return dealer


def answer(dealer: Dealer, request: list[bytes], payload: Any) -> None:
    client, protocol, _, rid, address, headers, _, _ = request
    dealer.send(client, protocol, b"REP", rid, address, headers, b"200", packed(payload))


@pytest.mark.parametrize("smi", ["SMI", "smi", "Smi"])
def test_zss_names_are_not_case_sensitive(dealers: Any, smi: str) -> None:
    service = up(dealers("zss_backend", "s"), f"Cased{smi}".upper(), smi, "Up")
    client = dealers("zss", "c")
    for sid in (f"cased{smi}".lower(), f"CASED{smi}".upper(), f"cAsEd{smi}"):
        client.send(*zss(b"REQ", sid.encode(), sid, "vErB", 1))
        answer(service, service.get(), sid)
        assert msgpack.unpackb(client.get()[6]) == sid
    up(service, f"Cased{smi}".upper(), smi, "heartbeat")
    up(service, f"Cased{smi}".upper(), smi, "down")


def test_a_zss_service_gets_one_request_at_a_time(dealers: Any) -> None:
    service, client = up(dealers("zss_backend", "s"), "SINGLE"), dealers("zss", "c")
    for number in range(20):
        client.send(*zss(b"REQ", b"r%d" % number, "SINGLE", "x", number))
    for number in range(20):
        request = service.get()
        assert request[3] == b"r%d" % number
        if number < 2:
            assert service.is_silent()
        answer(service, request, number)
        assert msgpack.unpackb(client.get()[6]) == number


def test_the_zss_wildcard_prefers_a_release(dealers: Any) -> None:
    early = up(dealers("zss_backend", "e"), "VER@2.0.0-rc1")
    client = dealers("zss", "c")
    client.send(*zss(b"REQ", b"1", "VER", "x", 1))
    answer(early, early.get(), "early")
    assert msgpack.unpackb(client.get()[6]) == "early"
    stable = up(dealers("zss_backend", "st"), "VER@1.10.0")
    client.send(*zss(b"REQ", b"2", "VER", "x", 1))
    answer(stable, stable.get(), "stable")
    assert msgpack.unpackb(client.get()[6]) == "stable"
    client.send(*zss(b"REQ", b"3", "VER", "x", 1, version="2.0.0-rc1"))
    answer(early, early.get(), "early")
    assert msgpack.unpackb(client.get()[6]) == "early"


@pytest.mark.parametrize("number", [2**53 + 1, 2**60, 2**100])
def test_an_integer_that_zss_cannot_hold_is_refused(site: LocalBroker, number: int) -> None:
    made = Worker(site.url("zss", for_workers=True), service="ints", own_process_beats=False)

    @made.task
    def give() -> int:
        return number

    with (
        made,
        Client(site.url("zss")) as client,
        pytest.raises(JobFailed, match="exceeds 53 bits"),
    ):
        client.call("ints", "give", timeout=20)


# --- memo01 -------------------------------------------------------------------------------------


def test_memo_ready_takes_service_names_in_any_order(site: LocalBroker) -> None:
    with (
        pynng.Req0(dial=site.endpoints["memo"], recv_timeout=10_000) as worker,
        pynng.Req0(dial=site.endpoints["memo"], recv_timeout=10_000) as client,
    ):
        worker.send(cbor2.dumps(["memo01", 1, b"", ["zebra", "ant", "zebra", "bee"]]))
        for service in ("bee", "zebra", "ant"):
            client.send(cbor2.dumps(["memo01", 2, b"", service, 10_000]) + b"in")
            message = worker.recv()
            while (head := cbor2.loads(message))[1] == 4:
                worker.send(cbor2.dumps(["memo01", 4, head[2]], canonical=True))
                message = worker.recv()
            assert head[3] == service
            worker.send(cbor2.dumps(["memo01", 3, head[2]], canonical=True) + service.encode())
            assert client.recv().endswith(service.encode())
