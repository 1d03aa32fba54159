"""Messages beyond the limit of their transport, from peers that share no code of ours.

A result that is too large ends its job with a fault at once, and a request is refused.
"""

from collections.abc import Iterator
from uuid import uuid4

import msgpack
import pynng
import pytest
from tests.interop.pynng_peers import JOB, READY, RESULT, read, write
from tests.interop.raw_nfp_text import TextDealer

from dragoman import Client, JobFailed
from dragoman.testing.harness import LocalBroker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

#: One mebibyte beyond the limit of ZeroMQ's links.
OVERSIZED = bytes(65 * 2**20)


@pytest.fixture(scope="module")
def site() -> Iterator[LocalBroker]:
    with LocalBroker("nfp", "dcp", "zss", "zss_backend", "memo", "mdp") as broker:
        yield broker


@pytest.fixture
def client(site: LocalBroker) -> Iterator[Client]:
    with Client(site.url("nfp")) as client:
        yield client


def dcp_work(dealer: TextDealer) -> None:
    """Register, take one request and answer it with a frame that is too large."""
    dealer.send(b"DGBX\x01", b"\x01", b"big-dcp")
    while (frames := dealer.get())[1] != b"\x04":
        pass
    envelope = frames[3 : frames.index(b"", 5) + 1]
    dealer.send(b"DGBX\x01", b"\x05", *envelope, OVERSIZED)


def nfp_work(dealer: TextDealer) -> None:
    dealer.send(b"NFPW01", b"\x00", b"")
    dealer.send(b"NFPW01", b"\x01", b"big-nfp")
    while (frames := dealer.get())[1] != b"\x04":
        pass
    dealer.send(b"NFPW01", b"\x05", frames[2], b"", frames[4], b"200", OVERSIZED)


def mdp_work(dealer: TextDealer) -> None:
    dealer.send(b"MDPW01", b"\x01", b"big-mdp")
    while (frames := dealer.get())[1] != b"\x02":
        pass
    dealer.send(b"MDPW01", b"\x03", frames[2], b"", OVERSIZED)


def zss_work(dealer: TextDealer) -> None:
    address = msgpack.packb({"sid": "SMI", "sversion": "*", "verb": "UP"})
    up = [b"ZSS:0.0", b"REQ", b"u", address, msgpack.packb({}), b"", msgpack.packb("BIG-ZSS")]
    dealer.socket.send_multipart([b"raw-zss", *up])
    assert dealer.socket.recv_multipart()[5] == b"200"
    asker, protocol, _, rid, address, headers, *_ = dealer.socket.recv_multipart()
    dealer.socket.send_multipart(
        [asker, protocol, b"REP", rid, address, headers, b"200", OVERSIZED]
    )


WORK = {"dcp": dcp_work, "nfp": nfp_work, "mdp": mdp_work, "zss": zss_work}


@pytest.mark.parametrize("dialect", WORK)
def test_a_raw_worker_beyond_its_transport_s_limit_fails_its_job_at_once(
    site: LocalBroker, client: Client, dialect: str
) -> None:
    endpoint = site.endpoints["zss_backend" if dialect == "zss" else dialect]
    with TextDealer(endpoint, f"raw-{dialect}".encode()) as dealer:
        job = client.submit(f"big-{dialect}", "produce", timeout=60)
        WORK[dialect](dealer)
        with pytest.raises(JobFailed, match="the result has 68157440 bytes; the limit is 67108864"):
            job.result(timeout=40)


def test_a_raw_memo_worker_beyond_its_transport_s_limit_fails_its_job_at_once(
    site: LocalBroker, client: Client
) -> None:
    with pynng.Req0(send_timeout=20_000, recv_timeout=20_000) as socket:
        socket.dial(site.endpoints["memo"], block=True)
        with socket.new_context() as context:
            context.send(write(READY, b"", ["big-memo"]))
            job = client.submit("big-memo", "produce", timeout=60)
            kind, name, _ = read(context.recv())
            assert kind == JOB
            context.send(write(RESULT, name, payload=OVERSIZED))
            with pytest.raises(JobFailed, match=r"the result has 681574\d\d bytes; the limit is"):
                job.result(timeout=40)


@pytest.mark.parametrize("command", [b"\x04", b"0x04"])
def test_a_raw_client_beyond_its_transport_s_limit_is_told_so(
    site: LocalBroker, command: bytes
) -> None:
    uuid = uuid4().hex.encode()
    with TextDealer(site.endpoints["nfp"], b"raw-" + command) as client:
        client.send(b"NFPC01", command, b"big", b"any", uuid, OVERSIZED)
        reply = client.get()
    assert (reply[3], reply[4]) == (uuid, b"400")
