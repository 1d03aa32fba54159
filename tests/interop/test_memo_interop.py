"""NNG's own peers (pynng) on a real broker: memo01 as its clients and workers know it."""

import asyncio
import json
import socket
import time
from pathlib import Path

import cbor2
import pytest
from tests.interop.conftest import StartBroker
from tests.interop.harness import Broker, Fleet, run_dragoman
from tests.interop.memo_peers import SOON, Cable, MemoWorker, Requester, hear, say

from dragoman import Client
from dragoman.dialects.memo01.wire import MemoDisconnect, MemoHeartbeat, MemoJob, MemoResult, encode
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.record import Kind, Record
from dragoman.sdk.errors import Expired

pytestmark = pytest.mark.interop

VECTORS = json.loads(
    (Path(__file__).parents[1] / "vectors" / "memo01" / "vectors.json").read_text()
)


@pytest.fixture
def memo(broker: StartBroker) -> Broker:
    return broker(links={"memo": "127.0.0.1:0"})


def records(broker: Broker) -> list[Record]:
    """Stop a broker and read what it wrote."""
    broker.stop()
    ledger = SqliteLedger(broker.ledger_file)
    try:
        return list(ledger.read())
    finally:
        asyncio.run(ledger.close())


def kinds(broker: Broker) -> list[str]:
    return [record.kind for record in records(broker)]


# --- who works with whom ------------------------------------------------------------------------


@pytest.mark.parametrize("endpoint", ["127.0.0.1:0", "[::1]:0", "ipc://{}/memo.sock"])
def test_a_job_goes_from_client_to_worker_and_back_on_every_transport(
    broker: StartBroker, tmp_path_factory: pytest.TempPathFactory, endpoint: str
) -> None:
    folder = tmp_path_factory.mktemp("s")
    memo = broker(links={"memo": endpoint.format(folder)})
    with Requester(memo.endpoints["memo"]) as workers, Requester(memo.endpoints["memo"]) as clients:
        worker = MemoWorker(workers, "alive.tv", "alive.interpret")
        client = clients.context()
        say(client, MemoJob(b"", "alive.tv", 40_000, b"\x00payload"))
        job = worker.next_job()
        assert job == MemoJob(worker.id, "alive.tv", 40_000, b"\x00payload")
        worker.finish(b"\xffresult")
        assert hear(client) == MemoResult(b"", b"\xffresult")


def test_clients_and_workers_share_one_connection(memo: Broker) -> None:
    with Requester(memo.endpoints["memo"]) as everybody:
        workers = [MemoWorker(everybody) for _ in range(10)]
        clients = [everybody.context() for _ in range(30)]
        for n, client in enumerate(clients):
            say(client, MemoJob(b"", "svc", 30_000, b"%d" % n))
        for _ in range(3):
            for worker in workers:
                worker.finish(b"re " + worker.next_job().payload)
        for n, client in enumerate(clients):
            assert hear(client) == MemoResult(b"", b"re %d" % n)
    assert len({w.id for w in workers}) == 10


def test_megabytes_pass_in_both_directions_and_more_is_refused_by_silence(
    broker: StartBroker,
) -> None:
    memo = broker(links={"memo": "127.0.0.1:0"}, settings="[memo]\npayload_limit = 8000000\n")
    with Requester(memo.endpoints["memo"]) as peers:
        worker, client = MemoWorker(peers), peers.context()
        big = bytes(range(256)) * 31_250
        say(client, MemoJob(b"", "svc", 30_000, big))
        assert worker.next_job().payload == big
        worker.finish(big)
        assert hear(client) == MemoResult(b"", big)
        assert peers.ask(MemoJob(b"", "svc", 30_000, big + b"x"), SOON) is None
        say(client, MemoJob(b"", "svc", 30_000, b"small"))
        assert worker.next_job().payload == b"small"
        worker.finish()
        assert hear(client) == MemoResult(b"")
    assert Kind.REFUSED in kinds(memo)


def test_our_worker_serves_a_foreign_client(memo: Broker, fleet: Fleet) -> None:
    arguments = ("tests.interop.tasks", "--service", "probe", "--url", memo.url("memo"))
    fleet.dragoman("worker", *arguments)
    with Requester(memo.endpoints["memo"]) as client:
        call = cbor2.dumps({"task": "add", "kwargs": {"x": 2, "y": 3}})
        answer = client.ask(MemoJob(b"", "probe", 30_000, call))
        assert answer == MemoResult(b"", cbor2.dumps(5))


def test_our_client_uses_a_foreign_worker(memo: Broker) -> None:
    with Requester(memo.endpoints["memo"]) as workers, Client(memo.url("memo")) as client:
        worker = MemoWorker(workers, "math")
        job = client.submit("math", "add", x=2, y=3, timeout=20)
        said = cbor2.loads(worker.next_job().payload)
        assert (said["task"], dict(said["kwargs"])) == ("add", {"x": 2, "y": 3})
        worker.finish(b"\xd9\xd9\xf7" + cbor2.dumps(5))
        assert job.result(20) == 5
        raw = client.submit("math", raw=b"\x01", timeout=20)
        assert worker.next_job().payload == b"\x01"
        worker.finish(b"\x02")
        assert raw.result(20) == b"\x02"


def test_the_command_line_speaks_memo(memo: Broker, fleet: Fleet) -> None:
    arguments = ("tests.interop.tasks", "--service", "probe", "--url", memo.url("memo"))
    fleet.dragoman("worker", *arguments)
    done = run_dragoman("call", "probe", "add", '{"x": 2, "y": 3}', "--url", memo.url("memo"))
    assert (done.returncode, done.stdout.strip()) == (0, "5"), done.stderr


def test_a_client_of_nfp_uses_a_foreign_memo_worker_and_the_other_way_round(
    broker: StartBroker, fleet: Fleet
) -> None:
    both = broker(links={"memo": "127.0.0.1:0", "nfp": "127.0.0.1:0"})
    with Requester(both.endpoints["memo"]) as peers, Client(both.url("nfp")) as client:
        worker = MemoWorker(peers, "math")
        job = client.submit("math", "add", x=2, y=3, timeout=20)
        assert dict(cbor2.loads(worker.next_job().payload)["kwargs"]) == {"x": 2, "y": 3}
        worker.finish(cbor2.dumps({"sum": 5}))
        assert job.result(20) == {"sum": 5}

        fleet.dragoman(
            "worker", "tests.interop.tasks", "--service", "probe", "--url", both.url("nfp")
        )
        call = cbor2.dumps({"task": "add", "kwargs": {"x": 2, "y": 3}})
        assert peers.ask(MemoJob(b"", "probe", 30_000, call)) == MemoResult(b"", cbor2.dumps(5))


# --- heartbeats, leaving, losing ----------------------------------------------------------------


def test_idle_workers_beat_and_late_ones_start_anew(broker: StartBroker) -> None:
    memo = broker(
        links={"memo": "127.0.0.1:0"}, settings="[memo]\nbeat_every = 0.2\nbeat_answer = 0.5\n"
    )
    with Requester(memo.endpoints["memo"]) as peers:
        worker = MemoWorker(peers)
        for _ in range(3):
            assert isinstance(worker.hear(), MemoHeartbeat)
            worker.beat()
        assert isinstance(worker.hear(), MemoHeartbeat)
        time.sleep(1.0)  # the worker is late, which takes time
        worker.beat()
        assert worker.hear() == MemoDisconnect(worker.id)
        worker.ready()
        client = peers.context()
        say(client, MemoJob(b"", "svc", 30_000))
        worker.next_job()
        worker.finish(b"done")
        assert hear(client) == MemoResult(b"", b"done")


def test_a_worker_that_leaves_is_told_disconnect_and_its_client_the_result(memo: Broker) -> None:
    with Requester(memo.endpoints["memo"]) as peers:
        worker, client = MemoWorker(peers), peers.context()
        say(client, MemoJob(b"", "svc", 30_000))
        worker.next_job()
        worker.finish(b"last", is_leaving=True)
        assert worker.hear() == MemoDisconnect(worker.id)
        assert hear(client) == MemoResult(b"", b"last")


def test_the_job_of_a_lost_worker_goes_to_another(broker: StartBroker) -> None:
    memo = broker(links={"memo": "127.0.0.1:0"})
    with Requester(memo.endpoints["memo"]) as peers:
        client = peers.context()
        with Requester(memo.endpoints["memo"]) as doomed:
            worker = MemoWorker(doomed)
            say(client, MemoJob(b"", "svc", 60_000, b"precious"))
            worker.next_job()
        other = MemoWorker(peers)
        assert other.next_job().payload == b"precious"
        other.finish(b"saved")
        assert hear(client) == MemoResult(b"", b"saved")
    assert kinds(memo).count(Kind.DISPATCHED) == 2


def test_a_job_that_runs_out_is_silence_and_its_worker_starts_anew(memo: Broker) -> None:
    with Requester(memo.endpoints["memo"]) as peers:
        worker, client = MemoWorker(peers), peers.context(SOON * 2)
        say(client, MemoJob(b"", "svc", 100))
        worker.next_job()
        assert hear(client) is None
        worker.finish(b"too late")
        assert worker.hear() == MemoDisconnect(worker.id)
    found = records(memo)
    assert [r.fault for r in found if r.kind == Kind.ENDED] == ["run_timeout"]
    assert Kind.LATE in [r.kind for r in found]


# --- resends --------------------------------------------------------------------------------------


def test_a_job_that_is_resent_every_second_runs_once(memo: Broker) -> None:
    with (
        Requester(memo.endpoints["memo"], resend_time=50) as impatient,
        Requester(memo.endpoints["memo"]) as peers,
    ):
        first, second = MemoWorker(peers), MemoWorker(peers, patience=SOON)
        client = impatient.context()
        say(client, MemoJob(b"", "svc", 30_000))
        first.next_job()
        time.sleep(2.5)  # NNG looks once a second whether something is to be resent
        assert second.hear() is None
        first.finish(b"once")
        assert hear(client) == MemoResult(b"", b"once")
    assert kinds(memo).count(Kind.SUBMITTED) == 1


def test_a_worker_that_resends_every_second_is_one_worker(memo: Broker) -> None:
    with (
        Requester(memo.endpoints["memo"], resend_time=50) as impatient,
        Requester(memo.endpoints["memo"]) as peers,
    ):
        worker = MemoWorker(impatient)
        time.sleep(1.5)  # READY is resent
        for n in range(2):
            client = peers.context()
            say(client, MemoJob(b"", "svc", 30_000, b"%d" % n))
            assert worker.next_job().payload == b"%d" % n
            worker.finish(b"re %d" % n)
            assert hear(client) == MemoResult(b"", b"re %d" % n)
            time.sleep(1.2)  # RESULT is resent
    joined = [r for r in records(memo) if r.kind == Kind.JOINED and r.dialect == "memo"]
    assert len(joined) == 1


def test_a_job_resent_after_a_cut_connection_runs_once(memo: Broker) -> None:
    with Cable(memo.endpoints["memo"]) as cable, Requester(memo.endpoints["memo"]) as peers:
        worker = MemoWorker(peers)
        with Requester(cable.endpoint) as far:
            client = far.context()
            say(client, MemoJob(b"", "svc", 30_000))
            worker.next_job()
            cable.cut()
            other = MemoWorker(peers, patience=SOON)
            assert other.hear() is None
            worker.finish(b"once")
            assert hear(client) == MemoResult(b"", b"once")
    assert kinds(memo).count(Kind.SUBMITTED) == 1


def test_a_busy_worker_whose_connection_is_cut_brings_its_result(memo: Broker) -> None:
    with (
        Cable(memo.endpoints["memo"]) as cable,
        Requester(memo.endpoints["memo"]) as peers,
        Requester(cable.endpoint) as far,
    ):
        worker, client = MemoWorker(far), peers.context()
        say(client, MemoJob(b"", "svc", 30_000))
        worker.next_job()
        cable.cut()
        worker.finish(b"through")
        assert hear(client) == MemoResult(b"", b"through")
    assert kinds(memo).count(Kind.DISPATCHED) == 1


# --- restart --------------------------------------------------------------------------------------


def test_after_a_restart_workers_are_told_disconnect_and_come_back(broker: StartBroker) -> None:
    memo = broker(links={"memo": "127.0.0.1:0"}, settings="[memo]\nbeat_every = 0.2\n")
    with Requester(memo.endpoints["memo"]) as peers:
        worker = MemoWorker(peers)
        assert isinstance(worker.hear(), MemoHeartbeat)
        memo.restart()
        worker.beat()
        assert worker.hear() == MemoDisconnect(worker.id)
        worker.ready()
        client = peers.context()
        say(client, MemoJob(b"", "svc", 30_000))
        worker.next_job()
        worker.finish(b"back")
        assert hear(client) == MemoResult(b"", b"back")


def test_a_job_that_runs_while_the_broker_is_killed_is_answered_and_runs_once(
    broker: StartBroker,
) -> None:
    memo = broker(links={"memo": "127.0.0.1:0"}, settings='[services.svc]\ndurability = "strict"\n')
    with Requester(memo.endpoints["memo"]) as peers:
        worker, client = MemoWorker(peers), peers.context()
        say(client, MemoJob(b"", "svc", 30_000))
        worker.next_job()
        memo.kill()
        memo.start()
        other = MemoWorker(peers, patience=SOON)
        worker.finish(b"survived")
        assert worker.hear() == MemoDisconnect(worker.id)
        assert hear(client) == MemoResult(b"", b"survived")
        assert other.hear() is None
    found = kinds(memo)
    assert (found.count(Kind.SUBMITTED), found.count(Kind.DISPATCHED)) == (1, 1)


def test_our_worker_and_client_work_again_after_a_restart(memo: Broker, fleet: Fleet) -> None:
    arguments = ("tests.interop.tasks", "--service", "probe", "--url", memo.url("memo"))
    fleet.dragoman("worker", *arguments)
    with Client(memo.url("memo")) as client:
        assert client.call("probe", "add", x=1, y=1, timeout=20) == 2
        memo.restart()
        assert client.call("probe", "add", x=1, y=2, timeout=20) == 3
        with pytest.raises(Expired):
            client.call("probe", "broken", timeout=1)


# --- bad input ------------------------------------------------------------------------------------


def test_every_rejected_message_is_unanswered_and_the_broker_lives_on(memo: Broker) -> None:
    bad = [bytes.fromhex(v["message_hex"]) for v in VECTORS if v["label"].startswith("rejected:")]
    bad += [b"\x81" * 20_000, b"\x83fmemo01\x04" + b"\x81" * 20_000, b"\x9f" * 20_000]
    bad += [encode(MemoJob(b"", "svc", timeout, b"%d" % timeout)) for timeout in (0, -1, -(2**63))]
    with Requester(memo.endpoints["memo"]) as peers:
        silent = [peers.context(0.001) for _ in bad]
        for context, message in zip(silent, bad, strict=True):
            say(context, message)
        worker, client = MemoWorker(peers), peers.context()
        say(client, MemoJob(b"", "svc", 30_000))
        worker.next_job()
        worker.finish(b"alive")
        assert hear(client) == MemoResult(b"", b"alive")
        assert [hear(context) for context in silent] == [None] * len(bad)
    assert {Kind.REJECTED, Kind.REFUSED} <= set(kinds(memo))


def test_a_flood_of_garbage_from_one_peer_does_not_fill_the_ledger(memo: Broker) -> None:
    with Requester(memo.endpoints["memo"]) as peers:
        context = peers.context()
        for _ in range(500):
            say(context, b"garbage")
        assert peers.ask(MemoHeartbeat(b"nobody")) == MemoDisconnect(b"nobody")
    assert 0 < kinds(memo).count(Kind.REJECTED) <= 50


def test_timeouts_from_one_millisecond_to_the_largest_number_are_survived(memo: Broker) -> None:
    with Requester(memo.endpoints["memo"]) as peers:
        worker = MemoWorker(peers)
        for timeout in (2**31 - 1, 2**31, 2**32 + 300, 2**40, 2**63 - 1, 2**64 - 1):
            client = peers.context()
            say(client, MemoJob(b"", "svc", timeout))
            assert worker.next_job().timeout_ms == 2**31 - 1
            worker.finish(b"%d" % timeout)
            assert hear(client) == MemoResult(b"", b"%d" % timeout)
        hasty = peers.context(SOON)
        say(hasty, MemoJob(b"", "svc", 1))
        assert worker.next_job().timeout_ms == 1
        assert hear(hasty) is None


def test_lenient_forms_are_understood(memo: Broker) -> None:
    with Requester(memo.endpoints["memo"]) as peers:
        for vector in VECTORS:
            if vector["label"].startswith("lenient:"):
                assert peers.ask(bytes.fromhex(vector["message_hex"])) == MemoDisconnect(b"abcd")


# --- many -----------------------------------------------------------------------------------------


@pytest.mark.scale
def test_five_thousand_workers_park_and_five_thousand_jobs_are_done(memo: Broker) -> None:
    many = 5000
    with Requester(memo.endpoints["memo"]) as peers, Requester(memo.endpoints["memo"]) as clients:
        workers = [MemoWorker(peers) for _ in range(many)]
        asking = [clients.context(60.0) for _ in range(many)]
        for n, client in enumerate(asking):
            say(client, MemoJob(b"", "svc", 60_000, b"%d" % n))
        for worker in workers:
            worker.finish(worker.next_job().payload)
        for n, client in enumerate(asking):
            assert hear(client) == MemoResult(b"", b"%d" % n)


@pytest.mark.scale
def test_a_client_that_reads_slowly_gets_every_result(memo: Broker) -> None:
    many, size = 300, 100_000
    with Requester(memo.endpoints["memo"]) as peers, Requester(memo.endpoints["memo"]) as slow:
        workers = [MemoWorker(peers) for _ in range(10)]
        asking = [slow.context(60.0) for _ in range(many)]
        for n, client in enumerate(asking):
            say(client, MemoJob(b"", "svc", 60_000, b"%d" % n))
        for _ in range(many // len(workers)):
            for worker in workers:
                worker.finish(worker.next_job().payload.rjust(size))
        for n, client in enumerate(asking):
            assert hear(client) == MemoResult(b"", (b"%d" % n).rjust(size))


def test_a_flood_of_connections_that_say_nothing_keeps_nobody_out(memo: Broker) -> None:
    host, _, port = memo.endpoints["memo"].removeprefix("tcp://").rpartition(":")
    flood = [socket.create_connection((host, int(port))) for _ in range(1000)]
    try:
        with Requester(memo.endpoints["memo"]) as peers:
            worker, client = MemoWorker(peers), peers.context()
            say(client, MemoJob(b"", "svc", 30_000))
            worker.next_job()
            worker.finish(b"in")
            assert hear(client) == MemoResult(b"", b"in")
    finally:
        for end in flood:
            end.close()


def test_memoised_services_answer_again_without_a_worker(broker: StartBroker) -> None:
    memo = broker(links={"memo": "127.0.0.1:0"}, settings="[services.pure]\nmemoize = true\n")
    with Requester(memo.endpoints["memo"]) as peers:
        worker, client = MemoWorker(peers, "pure"), peers.context()
        say(client, MemoJob(b"", "pure", 30_000, b"question"))
        worker.next_job()
        worker.finish(b"answer")
        assert hear(client) == MemoResult(b"", b"answer")
        assert peers.ask(MemoJob(b"", "pure", 30_000, b"question")) == MemoResult(b"", b"answer")
    assert kinds(memo).count(Kind.DISPATCHED) == 1
