"""Webhooks: each end of a job is delivered, also after failures and restarts."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.server.test_webhook_post import Receiver, receiver, url_of

from dragoman import Client, Denied, JobFailed, Worker
from dragoman.core.events import Noted
from dragoman.dialects.peer_sides import Unsupported
from dragoman.ledger.base import Entry
from dragoman.ledger.memory import MemoryLedger
from dragoman.model.record import Kind, Record
from dragoman.server.webhook_post import DELIVERY, SIGNATURE, HookRefused, open_secret, signature
from dragoman.server.webhooks import CHECKPOINT, WebhookRunner
from dragoman.testing.harness import LocalBroker

__all__ = ["Receiver", "receiver"]


class Bench:
    """A ledger, a runner, and a receiver that fails as told."""

    def __init__(self) -> None:
        self.ledger = MemoryLedger()
        self.now = 1000.0
        self.got: list[str] = []
        self.errors: list[Exception] = []
        self.runner = self.start()

    def start(self) -> WebhookRunner:
        self.runner = WebhookRunner(
            self.ledger,
            {"mail": "https://hooks.example.org/x?key=secret"},
            b"s",
            self.post,
            self.submit,
            lambda: self.now,
            attempts=3,
        )
        return self.runner

    def post(self, url: str, headers: dict[str, str], body: bytes) -> None:
        if self.errors:
            raise self.errors.pop(0)
        assert headers[DELIVERY] == json.loads(body)["job"]
        self.got.append(headers[DELIVERY])

    def submit(self, event: Any) -> None:
        assert isinstance(event, Noted)
        self.append(event.kind, event.job or "", event.service or "", event.detail)

    def append(self, kind: Kind, job: str, service: str = "mail", detail: str = "") -> None:
        record = Record(
            self.ledger.last_seq + 1, self.now, kind, job=job, service=service, detail=detail
        )
        self.ledger.write([Entry(record)])
        self.ledger.sync()

    def turn(self) -> float | None:
        while self.runner.read_once():
            pass
        return asyncio.run(self.runner.deliver_due())

    def outcomes(self) -> list[str]:
        return [r.detail for r in self.ledger.read() if r.kind == Kind.NOTIFIED]


def test_the_ends_of_jobs_of_the_service_are_delivered_once() -> None:
    bench = Bench()
    bench.append(Kind.SUBMITTED, "j1")
    bench.append(Kind.ENDED, "j1")
    bench.append(Kind.ENDED, "j2", service="other")
    assert bench.turn() is None
    assert bench.turn() is None
    assert bench.got == ["j1"]
    assert bench.outcomes() == ["hooks.example.org: delivered, attempt 1"]


def test_a_failed_delivery_is_repeated_later_and_given_up_at_last() -> None:
    bench = Bench()
    bench.append(Kind.ENDED, "j1")
    bench.errors = [OSError("down")] * 3
    assert bench.turn() == 1.0
    assert bench.turn() == 1.0, "it is not due yet"
    assert len(bench.errors) == 2
    bench.now += 1.0
    assert bench.turn() == 2.0
    bench.append(Kind.ENDED, "j2")
    bench.now += 2.0
    bench.turn()
    assert bench.got == ["j2"], "one endpoint that fails stops no other delivery"
    assert "hooks.example.org: given up after 3 attempts: down" in bench.outcomes()


def test_a_url_that_is_not_allowed_is_not_tried_again() -> None:
    bench = Bench()
    bench.append(Kind.ENDED, "j1")
    bench.errors = [HookRefused("not in the list")]
    assert bench.turn() is None
    assert bench.outcomes() == ["hooks.example.org: refused: not in the list"]


def test_a_restart_delivers_what_was_not_and_repeats_nothing() -> None:
    bench = Bench()
    bench.append(Kind.ENDED, "j1")
    bench.append(Kind.ENDED, "j2")
    bench.errors = [OSError("down")]
    bench.turn()
    assert len(bench.got) == 1
    bench.now += 2.0
    bench.start()
    bench.turn()
    assert sorted(bench.got) == ["j1", "j2"]
    bench.start()
    bench.turn()
    assert sorted(bench.got) == ["j1", "j2"]


def test_the_position_stays_before_the_oldest_that_is_not_delivered() -> None:
    bench = Bench()
    bench.append(Kind.ENDED, "j1")
    bench.errors = [OSError("down")]
    bench.turn()
    for n in range(5):
        bench.append(Kind.ENDED, f"other{n}", service="other")
    bench.now += 0.5
    bench.errors = [OSError("down")]
    bench.start()
    bench.turn()
    bench.runner._keep_position(is_last=True)
    assert bench.ledger.checkpoints()[CHECKPOINT] == 0


def test_jobs_that_ended_before_the_first_webhook_are_no_news() -> None:
    bench = Bench()
    bench.ledger.forget_checkpoint(CHECKPOINT)
    bench.append(Kind.ENDED, "old")
    bench.start()
    bench.append(Kind.ENDED, "new")
    bench.turn()
    assert bench.got == ["new"]


def test_a_broker_posts_signed_ends_and_records_them(receiver: Any, tmp_path: Path) -> None:
    hooks = {"services": {"hooked": url_of(receiver)}}
    with LocalBroker("nfp", data=tmp_path, webhooks=hooks) as broker:
        worker = Worker(broker.url("nfp"), "hooked", own_process_beats=False)
        worker.task(name="one")(lambda: 1)
        with worker, Client(broker.url("nfp")) as client:
            job = client.options(timeout=30).submit("hooked", "one")
            assert job.result(30) == 1
            kinds = client.subscribe("broker.notified", after=0)
            assert next(kinds).event["job"] == job.id
    ((path, headers, body),) = receiver.got
    assert path == "/hook?x=1"
    assert json.loads(body)["state"] == "succeeded"
    at = int(headers[SIGNATURE].partition(",")[0].removeprefix("t="))
    assert headers[SIGNATURE] == signature(open_secret(tmp_path / "webhook.key"), at, body)


def test_a_job_has_a_webhook_of_its_own_beside_that_of_its_service(
    receiver: Any, tmp_path: Path
) -> None:
    hooks = {"services": {"hooked": url_of(receiver, "/all")}, "hosts": ["127.0.0.1"]}
    with LocalBroker("nfp", "http", data=tmp_path, webhooks=hooks) as broker:
        worker = Worker(broker.url("nfp"), "hooked", own_process_beats=False)
        worker.task(name="one")(lambda: 1)
        with worker, Client(broker.url("nfp")) as client, Client(broker.url("http")) as other:
            for number, each in enumerate((client, other)):
                own = each.options(timeout=30, webhook=url_of(receiver, f"/own/{number}"))
                assert own.call("hooked", "one") == 1
            notified = client.subscribe("broker.notified", after=0)
            details = [next(notified).event["detail"] for _ in range(4)]
    assert sorted(path for path, _, _ in receiver.got) == ["/all", "/all", "/own/0", "/own/1"]
    assert sum(each.startswith("the job's own: 127.0.0.1: delivered") for each in details) == 2
    for _, headers, body in receiver.got:
        at = int(headers[SIGNATURE].partition(",")[0].removeprefix("t="))
        assert headers[SIGNATURE] == signature(open_secret(tmp_path / "webhook.key"), at, body)


def test_a_host_that_is_not_listed_is_refused_at_the_submission(
    receiver: Any, tmp_path: Path
) -> None:
    hooks = {"hosts": ["hooks.example.org"]}
    with (
        LocalBroker("nfp", "memo", data=tmp_path, webhooks=hooks) as broker,
        Client(broker.url("nfp")) as client,
        Client(broker.url("memo")) as without_room,
    ):
        with pytest.raises(Denied, match=r"127.0.0.1 is not in .webhooks. hosts; ask the oper"):
            client.options(timeout=30, webhook=url_of(receiver)).call("hooked", "one")
        with pytest.raises(JobFailed, match="webhook: 'nothing' is no webhook"):
            client.options(timeout=30, webhook="nothing").call("hooked", "one")
        with pytest.raises(Unsupported, match="webhook"):
            without_room.options(timeout=30, webhook=url_of(receiver)).call("hooked", "one")
        refused = client.subscribe("broker.refused", after=0)
        assert next(refused).event["fault"] == "denied"


def test_without_a_list_of_hosts_no_job_has_a_webhook(tmp_path: Path) -> None:
    with (
        LocalBroker("nfp", data=tmp_path) as broker,
        Client(broker.url("nfp")) as client,
        pytest.raises(Denied, match="is not in"),
    ):
        client.options(timeout=30, webhook="https://hooks.example.org/").call("hooked", "one")


def test_a_webhook_survives_a_restart_between_submission_and_end(
    receiver: Any, tmp_path: Path
) -> None:
    hooks = {"hosts": ["127.0.0.1"]}
    with (
        LocalBroker("nfp", data=tmp_path, webhooks=hooks) as broker,
        Client(broker.url("nfp")) as client,
    ):
        own = client.options(timeout=60, webhook=url_of(receiver))
        job = own.submit("hooked", "one")
        assert job.wait_until_acknowledged(20)
    with LocalBroker("nfp", data=tmp_path, webhooks=hooks) as broker:
        worker = Worker(broker.url("nfp"), "hooked", own_process_beats=False)
        worker.task(name="one")(lambda: 1)
        with worker, Client(broker.url("nfp")) as client:
            assert client.job(job.id).result(30) == 1
            assert next(client.subscribe("broker.notified", after=0)).event["job"] == job.id
    assert [json.loads(body)["job"] for _, _, body in receiver.got] == [job.id]


def test_without_webhooks_nothing_is_started(tmp_path: Path) -> None:
    with LocalBroker("nfp", data=tmp_path):
        pass
    assert not (tmp_path / "webhook.key").exists()


@pytest.mark.parametrize("count", [3])
def test_several_wait_at_a_time(count: int) -> None:
    bench = Bench()
    for n in range(count * 8):
        bench.append(Kind.ENDED, f"j{n}")
    bench.turn()
    assert len(bench.got) == count * 8
