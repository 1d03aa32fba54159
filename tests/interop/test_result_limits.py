"""A result that is too large is a fault in every dialect, in its status and in its body."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pynng
import pytest
from tests.interop.conftest import StartBroker
from tests.interop.harness import Broker
from tests.interop.pynng_peers import JOB, READY, RESULT, read, write
from tests.interop.raw_nfp import CLIENT, POST, RESPONSE, Raw, new_id, post_body

from dragoman import Client, JobFailed, Worker

pytestmark = pytest.mark.interop

LINKS = dict.fromkeys(("nfp", "dcp", "zss", "zss_backend", "memo", "nats", "http"), "127.0.0.1:0")
#: Where workers of a dialect connect, if not to the link of the same name.
WORKER_LINKS = {"zss": "zss_backend", "ncl": "nats"}
#: Beyond NATS's megabyte, memo01's 16 and the 64 of all other transports.
TOO_LARGE = {"nfp": 65, "dcp": 65, "zss": 65, "memo": 17, "ncl": 2, "http": 65}


@contextmanager
def worker(broker: Broker, dialect: str) -> Iterator[None]:
    link = WORKER_LINKS.get(dialect, dialect)
    url = f"{dialect}://{broker.endpoints[link].partition('://')[2]}"
    made = Worker(url, service="big", own_process_beats=False)

    @made.task
    def produce(mebibytes: int) -> bytes:
        return bytes(mebibytes * 2**20)

    with made:
        yield


@pytest.mark.timeout(120)
@pytest.mark.parametrize("dialect", TOO_LARGE)
def test_our_workers_report_it_at_once_and_go_on(broker: StartBroker, dialect: str) -> None:
    b = broker(LINKS)
    with worker(b, dialect), Client(b.url("nfp")) as client:
        with pytest.raises(JobFailed, match=r"the result has \d+ bytes; the limit is \d+"):
            client.call("big", "produce", TOO_LARGE[dialect], timeout=60)
        assert client.call("big", "produce", 0, timeout=60) == b""


@pytest.mark.parametrize("dialect", ["nfp", "dcp", "zss", "http"])
def test_clients_of_every_dialect_see_the_fault(broker: StartBroker, dialect: str) -> None:
    b = broker(LINKS)
    with (
        worker(b, "ncl"),
        Client(b.url(dialect)) as client,
        pytest.raises(JobFailed, match="the result has"),
    ):
        client.call("big", "produce", 2, timeout=60)


def test_a_raw_memo_worker_s_result_is_a_failure_for_a_raw_nfp_client(broker: StartBroker) -> None:
    b = broker({"nfp": "127.0.0.1:0", "memo": "127.0.0.1:0"})
    with pynng.Req0(send_timeout=20_000, recv_timeout=20_000) as socket:
        socket.dial(b.endpoints["memo"], block=True)
        with socket.new_context() as context, Raw(b.endpoints["nfp"], b"c-1") as client:
            context.send(write(READY, b"", ["big"]))
            client.send(CLIENT, POST, b"big", b"any", new_id(), post_body("produce"))
            kind, name, _ = read(context.recv())
            assert kind == JOB
            context.send(write(RESULT, name, payload=bytes(17 * 2**20)))
            reply = next(r for r in client.stream(20) if r[1] == RESPONSE and r[4] != b"202")
    assert reply[4] == b"400"
    assert "17825792 bytes" in json.dumps(json.loads(reply[5]))
