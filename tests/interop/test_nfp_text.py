"""NFP to the letter: peers written from the text alone, and the statuses they send and get."""

import json
import threading
from collections.abc import Iterator

import pytest
from tests.interop.conftest import StartBroker
from tests.interop.raw_nfp import RawClient, RawWorker, new_id, until_workers
from tests.interop.raw_nfp_text import (
    BROKER,
    CLIENT,
    DELETE,
    DISCONNECT,
    GET,
    KEEPALIVE,
    OPEN,
    POST,
    READY,
    RESPONSE,
    WORKER,
    ReqClient,
    TextDealer,
    TextWorker,
)

from dragoman import Client, JobContext, JobFailed, Worker
from dragoman.testing.harness import LocalBroker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

FAILURES = (b"400", b"408", b"417", b"500")


@pytest.fixture
def site() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def endpoint(site: LocalBroker) -> str:
    return site.url("nfp").replace("nfp://", "tcp://")


@pytest.fixture
def worker(endpoint: str) -> Iterator[TextWorker]:
    with TextWorker(endpoint, b"w") as worker:
        worker.ready()
        until_workers(endpoint, "w")
        yield worker


@pytest.fixture
def client(endpoint: str) -> Iterator[ReqClient]:
    with ReqClient(endpoint) as client:
        yield client


# --- a REQ client -------------------------------------------------------------------------------


def test_a_req_client_gets_one_reply_to_each_request(client: ReqClient, worker: TextWorker) -> None:
    for number in range(5):
        uuid, body = new_id(), f"{number}\x00opaque".encode("latin1")
        assert client.ask(POST, uuid, body)[0] == b"202"
        whom, job, given = worker.job()
        assert (job, given) == (uuid, (body,))
        assert client.ask(GET, uuid)[0] == b"300"
        worker.respond(whom, job, b"200 OK", b"done " + body)
        assert client.until_done(uuid) == (b"200", (b"done " + body,))
        assert client.ask(GET, uuid) == (b"200", (b"done " + body,))


def test_a_posted_again_job_is_the_same_job(client: ReqClient, worker: TextWorker) -> None:
    uuid = new_id()
    assert client.ask(POST, uuid, b"x")[0] == b"202"
    assert client.ask(POST, uuid, b"x")[0] == b"202"
    whom, _, _ = worker.job()
    worker.respond(whom, uuid, b"200", b"once")
    assert client.until_done(uuid) == (b"200", (b"once",))
    assert client.ask(POST, uuid, b"x")[0] == b"202"
    assert client.ask(POST, uuid, b"y")[0] == b"400"
    assert client.ask(GET, uuid) == (b"200", (b"once",))


def test_a_delete_has_its_outcome_as_the_one_reply(client: ReqClient, worker: TextWorker) -> None:
    first, waiting = new_id(), new_id()
    assert client.ask(POST, first, b"1")[0] == b"202"
    worker.job()
    assert client.ask(POST, waiting, b"2")[0] == b"202"
    assert client.ask(DELETE, waiting)[0] == b"200"
    assert client.ask(DELETE, first)[0] == b"417"
    assert client.ask(DELETE, new_id())[0] == b"400"
    assert client.ask(GET, new_id())[0] == b"400"
    assert client.ask(GET, waiting)[0] == b"417"


def test_a_job_for_all_workers_is_one_reply_with_a_frame_for_each(
    client: ReqClient, worker: TextWorker, endpoint: str
) -> None:
    with TextWorker(endpoint, b"w2").ready() as other:
        until_workers(endpoint, "w", "w2")
        uuid = new_id()
        assert client.ask(POST, uuid, b"x", target=b"all")[0] == b"202"
        for each in (worker, other):
            whom, job, _ = each.job()
            each.respond(whom, job, b"200", b"of one")
        status, content = client.until_done(uuid, target=b"all")
        assert (status, content) == (b"200", (b"of one", b"of one"))


def test_management_and_mistakes_are_one_reply_each(client: ReqClient, worker: TextWorker) -> None:
    ask = json.dumps({"task": "show_workers"}).encode()
    for _ in range(3):
        status, (body,) = client.ask(POST, new_id(), ask, service=b"mmi.service.broker")
        assert status == b"200"
        assert "w" in [row["name"] for row in json.loads(body)]
        assert client.ask(b"\x11", new_id(), ask)[0] == b"400"
        assert client.ask(b"\x77", new_id(), ask)[0] == b"400"
        assert client.ask(GET, new_id(), b"{}", service=b"events.service.broker")[0] == b"400"


def test_a_worker_s_question_does_not_reach_a_req_client(
    site: LocalBroker, client: ReqClient, endpoint: str
) -> None:
    go_on = threading.Event()
    made = Worker(site.url("nfp"), service="text", own_process_beats=False)

    @made.task
    def talk(job: JobContext) -> str:
        job.progress("half")
        job.stream(b"piece")
        go_on.wait(30)
        return "said"

    with made:
        uuid = new_id()
        assert client.ask(POST, uuid, b'{"task": "talk"}')[0] == b"202"
        assert client.ask(GET, uuid)[0] == b"300"
        go_on.set()
        status, (body,) = client.until_done(uuid)
        assert status == b"200"
        assert next(iter(json.loads(body).values()))["result"] == "said"


def test_a_dealer_that_declares_push_gets_the_result_unasked(
    endpoint: str, worker: TextWorker
) -> None:
    with TextDealer(endpoint) as dealer:
        dealer.send(CLIENT, OPEN, b'{"push": true}')
        assert dealer.get()[:2] == [BROKER, OPEN]
        uuid = new_id()
        dealer.send(CLIENT, POST, b"text", b"any", uuid, b"x")
        whom, job, _ = worker.job()
        worker.respond(whom, job, b"200", b"pushed")
        statuses = []
        while (frames := dealer.get())[5] != b"pushed":
            assert frames[1] == RESPONSE
            statuses.append(frames[4])
        assert set(statuses) == {b"202"}


# --- statuses -----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", FAILURES)
def test_a_worker_s_status_reaches_a_text_client(
    client: ReqClient, worker: TextWorker, status: bytes
) -> None:
    uuid = new_id()
    assert client.ask(POST, uuid, b"x")[0] == b"202"
    whom, job, _ = worker.job()
    worker.respond(whom, job, status + b" so it is", b"why\xff", b"more")
    assert client.until_done(uuid) == (status, (b"why\xff", b"more"))


@pytest.mark.parametrize("status", FAILURES)
def test_a_worker_s_status_reaches_norfab_s_reading_and_our_client(
    site: LocalBroker, endpoint: str, status: bytes
) -> None:
    with RawWorker(endpoint, b"w") as worker, RawClient(endpoint, b"c") as client:
        worker.ready()
        until_workers(endpoint, "w")
        uuid = client.post()
        whom, job, _ = worker.job()
        worker.respond(whom, job, status, {"w": {"failed": True, "result": None}})
        assert client.reply(uuid)[0] == "202"
        assert client.reply(uuid)[0] == status.decode()
        client.ask(b"0x06", b"raw", b"all", uuid)
        assert client.reply(uuid)[0] == "202"
        assert client.reply(uuid)[0] == status.decode()
        with Client(site.url("nfp")) as ours:
            submitted = ours.submit("raw", "add", timeout=20)
            whom, job, _ = worker.job()
            worker.respond(whom, job, status, {"error": "it cannot be done"})
            with pytest.raises(JobFailed, match="it cannot be done"):
                submitted.result(20)


def test_a_failure_in_norfab_s_body_stays_a_200_for_norfab_and_is_a_500_for_the_text(
    client: ReqClient, endpoint: str
) -> None:
    failed = {"w": {"result": None, "failed": True, "errors": ["no"]}}
    with RawWorker(endpoint, b"w", b"text") as worker, RawClient(endpoint, b"c") as norfab:
        worker.ready()
        until_workers(endpoint, "w")
        uuid = norfab.post(b"text")
        whom, job, _ = worker.job()
        worker.respond(whom, job, b"200", failed)
        assert [norfab.reply(uuid)[0] for _ in range(2)] == ["202", "200"]
        status, (body,) = client.ask(GET, uuid)
        assert (status, json.loads(body)) == (b"500", failed)


# --- frames -------------------------------------------------------------------------------------


def test_extra_body_frames_travel_both_ways(client: ReqClient, worker: TextWorker) -> None:
    uuid, body = new_id(), (b"a", b"", b"\xff" * 1000)
    assert client.ask(POST, uuid, *body)[0] == b"202"
    whom, job, given = worker.job()
    assert given == body
    worker.respond(whom, job, b"200", *body)
    assert client.until_done(uuid) == (b"200", body)


def test_a_response_without_content_ends_the_job(client: ReqClient, worker: TextWorker) -> None:
    for respond in (worker.respond, None):
        uuid = new_id()
        assert client.ask(POST, uuid, b"x")[0] == b"202"
        whom, job, _ = worker.job()
        if respond is not None:
            respond(whom, job, b"200")
        else:
            worker.respond_short(job, b"200")
        assert client.until_done(uuid) == (b"200", (b"",))


def test_an_opaque_request_reaches_our_worker_as_raw_bytes(
    site: LocalBroker, client: ReqClient, endpoint: str
) -> None:
    made = Worker(site.url("nfp"), service="text", own_process_beats=False)

    @made.task
    def raw(given: bytes) -> bytes:
        return given[::-1]

    with made:
        uuid = new_id()
        assert client.ask(POST, uuid, b"\xff\x00 no JSON")[0] == b"202"
        status, (body,) = client.until_done(uuid)
        assert status in (b"200", b"500"), body
        # NorFab's workers read JSON only: the request is wrapped, and never reaches one as it is.
        with RawWorker(endpoint, b"norfab", b"ascii") as norfab:
            norfab.ready()
            until_workers(endpoint, "norfab")
            assert client.ask(POST, new_id(), b"\xff", service=b"ascii")[0] == b"202"
            _, _, given = norfab.job()
            assert json.loads(given)["args"] == [{"$bytes": "/w=="}]


def test_our_client_reads_a_result_that_is_no_json(site: LocalBroker, worker: TextWorker) -> None:
    with Client(site.url("nfp")) as client:
        for said, expected in ((b"\xff\x00", b"\xff\x00"), (b"[1]", [1]), (b'{"a":1,"b":2}', None)):
            submitted = client.submit("text", "any", timeout=20)
            whom, job, _ = worker.job()
            worker.respond(whom, job, b"200", said)
            assert submitted.result(20) == (expected or {"a": 1, "b": 2})


# --- workers ------------------------------------------------------------------------------------


def test_a_second_ready_is_answered_with_disconnect_and_the_worker_may_return(
    client: ReqClient, worker: TextWorker, endpoint: str
) -> None:
    uuid = new_id()
    assert client.ask(POST, uuid, b"x")[0] == b"202"
    worker.job()
    worker.send(WORKER, READY, b"text")
    header, _, service, body = worker.until(DISCONNECT)
    assert (header, service) == (BROKER, b"text")
    assert b"READY" in body
    with TextWorker(endpoint, b"w") as again:
        again.ready()
        # The broker asks for the job that the worker still holds.
        frames = again.until(GET)
        again.respond(frames[2], uuid, b"200", b"held")
        assert client.until_done(uuid) == (b"200", (b"held",))


def test_a_response_for_a_job_never_given_is_answered_with_disconnect(worker: TextWorker) -> None:
    worker.respond(b"somebody", new_id(), b"200", b"x")
    assert worker.until(DISCONNECT)[0] == BROKER


def test_a_late_response_is_no_reason_to_disconnect(client: ReqClient, worker: TextWorker) -> None:
    uuid = new_id()
    assert client.ask(POST, uuid, b"x")[0] == b"202"
    whom, job, _ = worker.job()
    worker.respond(whom, job, b"200", b"first")
    worker.respond(whom, job, b"200", b"second")
    assert client.until_done(uuid) == (b"200", (b"first",))
    after = new_id()
    assert client.ask(POST, after, b"y")[0] == b"202"
    assert worker.job()[1] == after


def test_a_worker_without_an_identity_gets_a_name(client: ReqClient, endpoint: str) -> None:
    with TextWorker(endpoint).ready() as worker:
        uuid = new_id()
        assert client.ask(POST, uuid, b"x")[0] == b"202"
        whom, job, _ = worker.job()
        worker.respond(whom, job, b"200", b"by a stranger")
        assert client.until_done(uuid) == (b"200", (b"by a stranger",))
        ask = json.dumps({"task": "show_workers", "kwargs": {"service": "text"}}).encode()
        _, (body,) = client.ask(POST, new_id(), ask, service=b"mmi.service.broker")
        (row,) = json.loads(body)
        assert row["name"].startswith("worker-00")
        target = row["name"].encode()
        named = new_id()
        assert client.ask(POST, named, b"y", target=target)[0] == b"202"
        assert worker.job()[1] == named


def test_open_counts_as_life(broker: StartBroker) -> None:
    b = broker(settings="[nfp]\nbeat_every = 0.3\nmissed_allowed = 6\n")
    endpoint = b.endpoints["nfp"]
    with TextWorker(endpoint, b"w").ready() as worker, ReqClient(endpoint) as client:
        seen: list[bytes] = []
        while len(seen) < 8:
            frames = worker.get()
            if frames[1] == OPEN:
                continue
            seen.append(frames[1])
            worker.send(WORKER, OPEN, b"")
        assert DISCONNECT not in seen
        assert client.ask(POST, new_id(), b"x")[0] == b"202"
        worker.job()


def test_worker_management_says_which_workers_cannot_answer(
    client: ReqClient, worker: TextWorker
) -> None:
    uuid, body = new_id(), b'{"task": "show_broker"}'
    assert client.ask(POST, uuid, body, service=b"mmi.service.worker")[0] == b"202"
    status, (said,) = client.until_done(uuid, service=b"mmi.service.worker")
    assert status == b"500"
    assert b"not a worker of Dragoman's SDK" in said


def test_the_counts_of_keepalives_are_true(broker: StartBroker) -> None:
    b = broker(settings="[nfp]\nbeat_every = 0.2\nmissed_allowed = 50\n")
    endpoint = b.endpoints["nfp"]
    with TextWorker(endpoint, b"w").ready() as worker, RawClient(endpoint, b"c") as client:
        for _ in range(3):
            worker.until(KEEPALIVE)
            worker.send(WORKER, KEEPALIVE, b"text")
        (row,) = client.manage("show_workers", service="text")
        sent, _, received = row["keepalives tx/rx"].partition(" / ")
        assert int(sent) >= 3
        assert int(received) >= 2


# --- credit -------------------------------------------------------------------------------------


def test_a_worker_that_never_answers_holds_one_job_of_twenty(
    client: ReqClient, worker: TextWorker, endpoint: str
) -> None:
    with TextWorker(endpoint, b"healthy").ready() as healthy:
        until_workers(endpoint, "w", "healthy")
        jobs = [new_id() for _ in range(20)]
        for uuid in jobs:
            assert client.ask(POST, uuid, b"x")[0] == b"202"
        done = set()
        for _ in range(19):
            whom, job, _ = healthy.job()
            healthy.respond(whom, job, b"200", b"ok")
            done.add(job)
        assert len(done) == 19
        (left,) = set(jobs) - done
        assert worker.job()[1] == left
