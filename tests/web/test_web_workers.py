"""Workers over HTTP, by long poll."""

import base64
import http.client
import json
import threading
import time

import pytest
from tests.web.caller import Caller, HttpResponse, PlainWorker, until

from dragoman import Client
from dragoman.testing.harness import LocalBroker

pytestmark = pytest.mark.interop


def test_a_worker_gets_a_job_and_its_client_the_result(caller: Caller) -> None:
    worker = PlainWorker(caller, "one", name="first", labels={"site": "a"})
    body = {"service": "one", "task": "t", "args": [1, None], "kwargs": {"k": [True]}, "timeout": 9}
    job = caller.post("/v1/jobs", body).json["job"]
    word = worker.poll()
    assert (word["kind"], word["job"], word["attempt"]) == ("job", job, 1)
    assert (word["task"], word["args"], word["kwargs"]) == ("t", [1, None], {"k": [True]})
    assert 0 < word["timeout"] <= 9
    assert worker.report(word, kind="progress", value="half") == "taken"
    assert worker.report(word, value={"done": True}) == "taken"
    found = caller.get(f"/v1/jobs/{job}/result?wait=5").json
    assert (found["value"], found["worker"]) == ({"done": True}, "first")
    worker.leave()


def test_many_jobs_come_with_one_poll_and_go_with_one_list_of_reports(caller: Caller) -> None:
    worker = PlainWorker(caller, "many-at-once", credit=5)
    jobs = [{"service": "many-at-once", "job": f"at-once-{n}"} for n in range(5)]
    caller.post("/v1/jobs/bulk", {"jobs": jobs})
    poll = {"wait": 5, "after": 0, "most": 10}
    words = caller.post(f"{worker.path}/poll", poll).json["messages"]
    assert [word["job"] for word in words] == [f"at-once-{n}" for n in range(5)]
    reports = [{"job": word["job"], "attempt": 1, "value": word["word"]} for word in words]
    odd = [{"job": "unknown", "attempt": 1}, {"job": "x", "attempt": -1}, {"kind": "nonsense"}]
    found = caller.post(f"{worker.path}/reports", {"reports": reports + odd}).json["reports"]
    assert [each["status"] for each in found] == ["taken"] * 5 + ["late", 400, 400]
    again = caller.post(f"{worker.path}/reports", {"reports": reports}).json["reports"]
    assert [each["status"] for each in again] == ["repeated"] * 5
    for n in range(5):
        assert caller.get(f"/v1/jobs/at-once-{n}/result?wait=5").json["value"] == n + 1
    poll = {"wait": 0, "after": 5, "most": 10}
    assert caller.post(f"{worker.path}/poll", poll).json == {"messages": []}
    worker.leave()


def test_a_result_posted_twice_counts_once(caller: Caller) -> None:
    worker = PlainWorker(caller, "twice")
    job = caller.post("/v1/jobs", {"service": "twice"}).json["job"]
    word = worker.poll()
    assert [worker.report(word, value=1) for _ in range(3)] == ["taken", "repeated", "repeated"]
    assert worker.report(word | {"attempt": 7}, value=2) == "late"
    assert caller.get(f"/v1/jobs/{job}/result").json["value"] == 1
    worker.leave()


def test_an_attempt_that_nobody_counts_to_is_not_found(caller: Caller) -> None:
    worker = PlainWorker(caller, "many")
    found = caller.post(f"{worker.path}/jobs/j/{10**20}", {"kind": "final", "value": 1})
    assert (found.status, found.is_problem) == (404, True)
    worker.leave()


def test_a_word_is_said_again_until_it_has_arrived(caller: Caller) -> None:
    worker = PlainWorker(caller, "again")
    caller.post("/v1/jobs", {"service": "again"})
    word = worker.poll()
    worker.after = 0
    assert worker.poll() == word
    worker.after = word["word"]
    assert worker.poll(0) == {}
    worker.report(word, value=1)
    worker.leave()


def test_a_word_that_is_lost_with_its_connection_is_said_again(caller: Caller) -> None:
    worker = PlainWorker(caller, "cut")
    line = http.client.HTTPConnection(caller.host, caller.port, timeout=10)
    body, kind = json.dumps({"wait": 10, "after": 0}), {"Content-Type": "application/json"}
    line.request("POST", f"{worker.path}/poll", body, kind)
    caller.post("/v1/jobs", {"service": "cut"})
    line.close()
    word = worker.poll()
    assert word["kind"] == "job"
    worker.report(word, value=1)
    worker.leave()


def test_a_poll_without_work_is_a_heartbeat_and_a_newer_one_takes_over(caller: Caller) -> None:
    worker = PlainWorker(caller, "idle")
    assert worker.poll(0.1) == {}
    found, before = [], _beats(caller, worker.name)
    older = threading.Thread(target=lambda: found.append(worker.poll(10)))
    older.start()
    until(lambda: _beats(caller, worker.name) > before, "the older poll waits")
    assert worker.poll(0.1) == {}
    older.join(5)
    assert found == [{}]
    worker.leave()


def _beats(caller: Caller, name: str) -> int:
    rows = caller.get("/v1/workers").json["workers"]
    return next((int(row["beats"]) for row in rows if row["name"] == name), -1)


def test_polling_is_the_lease_and_a_waiting_poll_keeps_it(caller: Caller) -> None:
    worker = PlainWorker(caller, "leased")
    assert worker.poll(4.0) == {}
    assert _beats(caller, worker.name) > 4
    until(lambda: _beats(caller, worker.name) < 0, "silence ends the session")
    found = caller.post(f"{worker.path}/poll", {})
    assert (found.status, found.json["code"]) == (404, "unknown_session")
    assert found.is_problem


def test_the_job_of_a_worker_that_dies_goes_to_another(caller: Caller) -> None:
    first = PlainWorker(caller, "mortal")
    job = caller.post("/v1/jobs", {"service": "mortal"}).json["job"]
    lost = first.poll()
    second = PlainWorker(caller, "mortal")
    word = second.poll(10)
    assert (word["job"], word["attempt"]) == (job, 2)
    found = caller.post(f"{first.path}/jobs/{lost['job']}/1", {"value": "from the grave"})
    assert found.status == 404
    second.report(word, value="alive")
    assert caller.get(f"/v1/jobs/{job}/result?wait=5").json["value"] == "alive"
    second.leave()


def test_a_busy_worker_may_be_silent_for_as_long_as_it_asked(caller: Caller) -> None:
    worker = PlainWorker(caller, "deep", busy_lease=30)
    caller.post("/v1/jobs", {"service": "deep"})
    word = worker.poll()
    time.sleep(3.0)  # Longer than the lease of others, which is what this is about.
    assert worker.report(word, value=1) == "taken"
    worker.leave()


def test_a_leaving_workers_job_goes_to_another_at_once(caller: Caller) -> None:
    first = PlainWorker(caller, "leaving")
    caller.post("/v1/jobs", {"service": "leaving"})
    first.poll()
    second = PlainWorker(caller, "leaving")
    first.leave()
    word = second.poll(5)
    assert word["attempt"] == 2
    second.report(word, kind="handed_back")
    assert second.poll(5)["attempt"] == 3
    second.leave()


def test_a_worker_comes_back_to_its_session_with_what_it_holds(caller: Caller) -> None:
    worker = PlainWorker(caller, "back")
    caller.post("/v1/jobs", {"service": "back"})
    word = worker.poll()
    again = caller.post(
        "/v1/workers",
        {"services": ["back"], "name": worker.name, "session": worker.session,
         "holds": [word["job"]]},
    )  # fmt: skip
    assert again.json["session"] == worker.session
    assert worker.report(word, value=1) == "taken"
    worker.leave()


def test_bytes_reach_a_worker_as_they_are(caller: Caller) -> None:
    worker = PlainWorker(caller, "raw")
    raw = bytes(range(256))
    answers = list[HttpResponse]()
    call = threading.Thread(
        target=lambda: answers.append(
            caller.ask("POST", "/v1/call/raw?task=t", raw=raw,
                       Content_Type="application/octet-stream")
        )
    )  # fmt: skip
    call.start()
    found = caller.post(f"{worker.path}/poll", {"wait": 5}, Accept="application/octet-stream")
    assert found.body == raw
    assert (found.headers["dragoman-kind"], found.headers["dragoman-task"]) == ("job", "t")
    job, attempt = found.headers["dragoman-job"], found.headers["dragoman-attempt"]
    path = f"{worker.path}/jobs/{job}/{attempt}?kind=final"
    caller.ask("POST", path, raw=raw[::-1], Content_Type="application/octet-stream")
    call.join(10)
    assert answers[0].body == raw[::-1]
    worker.leave()


def test_a_client_of_another_dialect_uses_an_http_worker(
    caller: Caller, broker: LocalBroker
) -> None:
    worker = PlainWorker(caller, "mixed")
    with Client(broker.url("nfp")) as client:
        job = client.submit("mixed", "t", b"\x00\xff")
        word = worker.poll()
        assert base64.b64decode(word["args"][0]["$bytes"]) == b"\x00\xff"
        worker.report(word, value={"$bytes": "AAE="})
        assert job.result(10) == b"\x00\x01"
        job = client.submit("mixed", "t")
        word = worker.poll()
        worker.report(word, fault={"message": "out of luck"})
        with pytest.raises(Exception, match="out of luck"):
            job.result(10)
    worker.leave()


def test_a_job_is_passed_on_to_another_service(caller: Caller) -> None:
    first, second = PlainWorker(caller, "front"), PlainWorker(caller, "back-office")
    job = caller.post("/v1/jobs", {"service": "front"}).json["job"]
    first.report(first.poll(), kind="forward", service="back-office", task="u", args=[1])
    word = second.poll()
    assert (word["job"], word["task"], word["args"]) == (job, "u", [1])
    second.report(word, value="done")
    assert caller.get(f"/v1/jobs/{job}/result?wait=5").json["value"] == "done"
    first.leave()
    second.leave()


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"services": []},
        {"services": [""]},
        {"services": ["s"], "credit": 0},
        {"services": ["s"], "session": "../../x"},
        {"services": ["s"], "name": "a\nb"},
        {"services": ["s"], "busy_lease": -1},
    ],
)
def test_a_worker_that_does_not_make_sense_is_refused(caller: Caller, body: object) -> None:
    found = caller.post("/v1/workers", body)
    assert found.status == 400
    assert found.is_problem


def test_words_and_reports_that_do_not_make_sense_are_refused(caller: Caller) -> None:
    worker = PlainWorker(caller, "strict")
    caller.post("/v1/jobs", {"service": "strict"})
    word = worker.poll()
    path = f"{worker.path}/jobs/{word['job']}/1"
    for body in ({"kind": "gossip"}, {"kind": "forward"}, {"values": 1}, [1]):
        assert caller.post(path, body).status == 400
    assert caller.ask("POST", path, raw=b"x", Content_Type="text/plain").status == 415
    assert caller.post(f"{worker.path}/jobs/{word['job']}/one", {}).status == 404
    assert caller.post(f"{worker.path}/poll", {"wait": -1}).status == 400
    assert caller.post("/v1/workers/nobody/poll", {}).status == 404
    assert worker.report(word, value=1) == "taken"
    worker.leave()


def test_an_event_is_published_and_heard(caller: Caller) -> None:
    worker = PlainWorker(caller, "loud")
    with caller.events("/v1/events?topic=my.*") as events:
        found = caller.post(f"{worker.path}/events", {"topic": "my.news", "event": {"x": 1}})
        assert found.status == 202
        event = next(iter(events))
    assert (event["event"], event["data"]["event"]) == ("my.news", {"x": 1})
    worker.leave()
