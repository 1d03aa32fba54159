"""MDP with peers on plain pyzmq, written from the texts: REQ and DEALER clients, both versions."""

from collections.abc import Iterator

import pytest
from tests.interop.harness import Broker, Fleet, until
from tests.interop.raw_mdp import DealerClient, ReqClient

from dragoman import Client, Worker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

SETTINGS = "[mdp]\nbeat_every = 0.5\nmissed_allowed = 8\n"


@pytest.fixture
def mdp_broker(fleet: Fleet) -> Broker:
    links = {"mdp": "127.0.0.1:0", "nfp": "127.0.0.1:0"}
    return fleet.broker(links, SETTINGS)


def endpoint(mdp_broker: Broker) -> str:
    return mdp_broker.endpoints["mdp"]


def start_worker(fleet: Fleet, mdp_broker: Broker, version: int, name: str = "w") -> None:
    worker = fleet.python(
        "-m", "tests.interop.raw_mdp", str(version), endpoint(mdp_broker), "echo", name
    )
    worker.until_it_says("registered")
    client = DealerClient(endpoint(mdp_broker), 2)
    until(lambda: client.call(b"mmi.service", b"echo") == [b"200"], "the worker is registered")
    client.close()


@pytest.fixture(params=["req", "dealer-1", "dealer-2"])
def client(
    request: pytest.FixtureRequest, mdp_broker: Broker
) -> Iterator[ReqClient | DealerClient]:
    kind, _, version = request.param.partition("-")
    made = ReqClient(endpoint(mdp_broker)) if kind == "req" else None
    found = made or DealerClient(endpoint(mdp_broker), int(version))
    yield found
    found.close()


@pytest.mark.parametrize("version", [1, 2])
def test_every_client_calls_a_worker_of_every_version(
    fleet: Fleet, mdp_broker: Broker, client: ReqClient | DealerClient, version: int
) -> None:
    start_worker(fleet, mdp_broker, version)
    for body in ([b"a"], [b"", b"b", b""], [bytes(range(256)) * 4096]):
        assert client.call(b"echo", *body) == [b"w", *body]


def test_a_worker_of_the_second_version_streams(fleet: Fleet, mdp_broker: Broker) -> None:
    start_worker(fleet, mdp_broker, 2)
    client = DealerClient(endpoint(mdp_broker), 2)
    client.send(b"echo", b"stream", b"1", b"2", b"3")
    heard = [client.receive() for _ in range(4)]
    assert heard == [(False, [b"1"]), (False, [b"2"]), (False, [b"3"]), (True, [b"w", b"end"])]
    client.close()


def test_mmi_tells_which_services_have_workers(fleet: Fleet, mdp_broker: Broker) -> None:
    client = ReqClient(endpoint(mdp_broker))
    assert client.call(b"mmi.service", b"echo") == [b"404"]
    assert client.call(b"mmi.reset", b"now") == [b"501"]
    start_worker(fleet, mdp_broker, 1)
    assert client.call(b"mmi.service", b"echo") == [b"200"]
    client.close()


def test_a_titanic_request_survives_a_restart_of_the_broker(
    fleet: Fleet, mdp_broker: Broker
) -> None:
    client = ReqClient(endpoint(mdp_broker))
    status, uuid = client.call(b"titanic.request", b"echo", b"kept")
    assert status == b"200"
    assert client.call(b"titanic.reply", uuid) == [b"300"]
    client.close()
    mdp_broker.kill()
    mdp_broker.start()
    start_worker(fleet, mdp_broker, 1)
    client = ReqClient(endpoint(mdp_broker))
    until(lambda: client.call(b"titanic.reply", uuid) != [b"300"], "the request was worked on")
    assert client.call(b"titanic.reply", uuid) == [b"200", b"w", b"kept"]
    assert client.call(b"titanic.close", uuid) == [b"200"]
    assert client.call(b"titanic.reply", uuid) == [b"400"]
    client.close()


def test_the_request_of_a_killed_worker_goes_to_another(fleet: Fleet, mdp_broker: Broker) -> None:
    first = fleet.python("-m", "tests.interop.raw_mdp", "1", endpoint(mdp_broker), "echo", "first")
    first.until_it_says("registered")
    client = DealerClient(endpoint(mdp_broker), 2)
    until(lambda: client.call(b"mmi.service", b"echo") == [b"200"], "the worker is registered")
    client.send(b"echo", b"fail silently")
    until(lambda: client_sees_busy(mdp_broker), "the request is with the worker")
    first.kill()
    start_other(fleet, mdp_broker)
    assert client.receive() == (True, [b"second", b"fail silently"])
    client.close()


def client_sees_busy(mdp_broker: Broker) -> bool:
    with Client(mdp_broker.url("nfp")) as management:
        jobs = management.call("mmi.service.broker", "show_jobs", state="running", timeout=10)
    return any(row["service"] == "echo" for row in jobs)


def start_other(fleet: Fleet, mdp_broker: Broker) -> None:
    script = (
        "from tests.interop.raw_mdp import EchoWorker\n"
        f"w = EchoWorker({endpoint(mdp_broker)!r}, b'echo', b'second', 2)\n"
        "w._serve = lambda rest: w._send(b'\\x04', rest[0], b'', w.name, *rest[2:])\n"
        "print('registered', flush=True)\n"
        "while True: w.step()\n"
    )
    fleet.python("-c", script).until_it_says("registered")


def test_a_worker_comes_back_after_a_restart_of_the_broker(
    fleet: Fleet, mdp_broker: Broker
) -> None:
    start_worker(fleet, mdp_broker, 1)
    mdp_broker.kill()
    mdp_broker.start()
    client = ReqClient(endpoint(mdp_broker))
    assert client.call(b"echo", b"again") == [b"w", b"again"]
    client.close()


def test_plain_peers_meet_peers_of_another_dialect(fleet: Fleet, mdp_broker: Broker) -> None:
    start_worker(fleet, mdp_broker, 2, "plain worker")
    with Client(mdp_broker.url("nfp")) as client:
        # The frames of a plain worker are a list; what is not MessagePack is bytes.
        assert client.call("echo", "shout", 1, timeout=20) == [b"plain worker", b"shout", [[1], {}]]
    worker = Worker(mdp_broker.url("nfp"), service="math")

    @worker.task
    def raw(data: bytes) -> bytes:
        return data[::-1]

    with worker:
        plain = DealerClient(endpoint(mdp_broker), 1)
        until(lambda: plain.call(b"mmi.service", b"math") == [b"200"], "the worker has joined")
        assert plain.call(b"math", b"raw", b"\x92\x91\xc4\x02ab\x80") == [b"ba"]
        plain.close()
