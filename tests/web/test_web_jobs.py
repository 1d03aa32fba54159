"""Jobs over HTTP, by a client that has nothing but urllib."""

import http.client
import json
import threading
import time

import pytest
from tests.web.caller import Caller, PlainWorker, until

from dragoman import Worker

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("math")]
CALL = {"service": "math", "task": "add", "kwargs": {"x": 2, "y": 3}}


def test_a_call_waits_for_its_result(caller: Caller, math: Worker) -> None:
    found = caller.post("/v1/call", CALL)
    assert found.status == 200
    assert found.json["value"] == 5
    assert found.json["worker"] == math.name
    assert found.headers["dragoman-job"] == found.json["job"]


def test_a_submission_is_taken_in_and_its_result_fetched_later(caller: Caller) -> None:
    taken = caller.post("/v1/jobs", CALL)
    assert taken.status == 202
    place = taken.headers["location"]
    assert place == f"/v1/jobs/{taken.json['job']}"
    done = caller.get(f"{place}/result?wait=10")
    assert (done.status, done.json["value"]) == (200, 5)
    standing = caller.get(place).json
    assert (standing["state"], standing["service"], standing["task"]) == (
        "succeeded",
        "math",
        "add",
    )
    assert caller.get(f"{place}/why").json["reason"] == "succeeded"


def test_many_jobs_are_submitted_at_once_and_each_has_its_own_outcome(caller: Caller) -> None:
    good = [CALL | {"job": f"bulk-{n}", "kwargs": {"x": n, "y": 1}} for n in range(20)]
    bad = [
        CALL | {"job": "bulk-bad-option", "timeout": -1},
        CALL | {"job": "bulk-bad-target", "target": ","},
        {"job": "bulk-bad-name", "service": ""},
        CALL | {"job": "bulk-0", "kwargs": {"x": 9, "y": 9}},
        CALL | {"job": "bulk-earlier", "kwargs": {"x": 9, "y": 9}},
        7,
    ]
    caller.post("/v1/call", CALL | {"job": "bulk-earlier"})
    found = caller.post("/v1/jobs/bulk", {"jobs": good + bad})
    assert found.status == 200
    taken, refused = found.json["jobs"][:20], found.json["jobs"][20:]
    assert taken == [{"job": f"bulk-{n}", "state": "queued"} for n in range(20)]
    assert [(each["status"], each["code"]) for each in refused] == [
        (400, "bad_request"),
        (400, "bad_request"),
        (400, "bad_request"),
        (400, "bad_request"),
        (409, "conflict"),
        (400, "bad_request"),
    ]
    for n in range(20):
        assert caller.get(f"/v1/jobs/bulk-{n}/result?wait=10").json["value"] == n + 1


def test_a_list_of_jobs_has_bounds(caller: Caller) -> None:
    assert caller.post("/v1/jobs/bulk", {"jobs": []}).is_problem
    found = caller.post("/v1/jobs/bulk", {"jobs": [CALL] * 1001})
    assert (found.status, found.is_problem) == (400, True)
    assert caller.post("/v1/jobs/bulk", {}).is_problem


def test_the_same_key_is_the_same_job_and_another_body_a_conflict(caller: Caller) -> None:
    first = caller.post("/v1/call", CALL, Idempotency_Key="once")
    again = caller.post("/v1/call", CALL, Idempotency_Key="once")
    assert (first.json["value"], again.json["value"]) == (5, 5)
    jobs = caller.get("/v1/jobs?service=math").json["jobs"]
    ids = {job["job"] for job in jobs}
    assert first.json["job"] in ids
    assert again.json["job"] not in ids
    other = caller.post("/v1/jobs", CALL | {"task": "fail"}, Idempotency_Key="once")
    assert (other.status, other.json["code"]) == (409, "conflict")
    assert other.is_problem


def test_a_waiting_caller_of_a_job_known_by_another_key_is_answered(caller: Caller) -> None:
    worker = PlainWorker(caller, "keyed")
    body = {"service": "keyed", "task": "t", "key": "shared"}
    first = caller.post("/v1/jobs", body).json["job"]
    found = []
    waiting = threading.Thread(target=lambda: found.append(caller.post("/v1/call", body)))
    waiting.start()
    with caller.events("/v1/events?after=0&topic=broker.adopted") as events:
        assert any(event["data"]["event"]["job"] == first for event in events)
    worker.report(worker.poll(), value="one run")
    waiting.join(20)
    assert found[0].json["value"] == "one run"
    worker.leave()


def test_a_failed_task_is_a_problem_with_its_words(caller: Caller) -> None:
    found = caller.post("/v1/call", {"service": "math", "task": "fail"})
    assert (found.status, found.json["code"], found.json["definite"]) == (500, "task_failed", True)
    assert "out of luck" in found.json["detail"]
    assert found.json["state"] == "failed"
    assert found.is_problem


def test_a_call_ends_at_its_deadline(caller: Caller) -> None:
    began = time.monotonic()
    found = caller.post("/v1/call", {"service": "nobody", "timeout": 0.5})
    assert (found.status, found.json["code"]) == (504, "queue_timeout")
    assert time.monotonic() - began < 5


def test_a_pending_job_says_how_it_stands_and_a_poll_ends_in_time(caller: Caller) -> None:
    job = caller.post("/v1/jobs", {"service": "nobody-yet", "timeout": 30}).json["job"]
    pending = caller.get(f"/v1/jobs/{job}/result?wait=0.2")
    assert (pending.status, pending.json["state"]) == (202, "queued")
    assert caller.get(f"/v1/jobs/{job}/why").json["reason"] == "no_service"
    found = caller.ask("DELETE", f"/v1/jobs/{job}").json
    assert (found["cancelled"], found["confirmed"]) == (True, True)
    gone = caller.get(f"/v1/jobs/{job}/result")
    assert (gone.status, gone.json["code"]) == (410, "cancelled")


def test_a_running_job_is_cancelled_and_its_worker_confirms(caller: Caller) -> None:
    body = {"service": "math", "task": "wait_to_be_stopped"}
    job = caller.post("/v1/jobs", body).json["job"]
    until(lambda: caller.get(f"/v1/jobs/{job}").json["state"] == "running", "it runs")
    found = caller.ask("DELETE", f"/v1/jobs/{job}").json
    assert (found["state"], found["cancelled"], found["confirmed"]) == ("cancelled", True, True)


def test_cancelling_what_has_ended_changes_nothing(caller: Caller) -> None:
    job = caller.post("/v1/call", CALL).json["job"]
    found = caller.ask("DELETE", f"/v1/jobs/{job}").json
    assert (found["state"], found["cancelled"], found["confirmed"]) == ("succeeded", False, False)


def test_bytes_go_in_and_come_out(caller: Caller) -> None:
    raw = bytes(range(256)) * 4096
    found = caller.ask("POST", "/v1/call/math", raw=raw, Content_Type="application/octet-stream")
    assert found.headers["content-type"] == "application/octet-stream"
    assert found.body == raw[::-1]
    wrong = caller.ask("POST", "/v1/call/math", {"task": "add"})
    assert wrong.status == 415


def test_a_job_for_all_workers_has_a_result_from_each(caller: Caller, math: Worker) -> None:
    found = caller.post("/v1/call", CALL | {"target": "all"})
    assert found.json["results"] == {math.name: {"value": 5}}


def test_input_reaches_a_running_job_and_is_refused_when_nothing_runs(caller: Caller) -> None:
    worker = PlainWorker(caller, "asks")
    job = caller.post("/v1/jobs", {"service": "asks"}).json["job"]
    word = worker.poll()
    worker.report(word, kind="ask", request="q1", value="name?")
    until(lambda: caller.get(f"/v1/jobs/{job}").json.get("waiting_for_input"), "it asks")
    given = caller.post(f"/v1/jobs/{job}/input", {"request": "q1", "value": "bob"})
    assert given.status == 202
    answered = worker.poll()
    assert (answered["kind"], answered["request"], answered["value"]) == ("input", "q1", "bob")
    worker.report(word, value="hello bob")
    late = caller.post(f"/v1/jobs/{job}/input", {"value": "more"})
    assert (late.status, late.json["code"]) == (404, "unknown_job")
    worker.leave()


def test_a_caller_that_leaves_may_take_its_job_with_it(caller: Caller) -> None:
    worker = PlainWorker(caller, "left")
    for how, kept in (("cancel", False), ("continue", True)):
        line = http.client.HTTPConnection(caller.host, caller.port, timeout=10)
        body = {"service": "left", "job": f"left-{how}", "on_disconnect": how}
        line.request("POST", "/v1/call", json.dumps(body), {"Content-Type": "application/json"})
        word = worker.poll()
        assert word["kind"] == "job"
        line.close()
        if kept:
            worker.report(word, value=1)
            found = caller.get(f"/v1/jobs/left-{how}/result?wait=5")
            assert (found.status, found.json["value"]) == (200, 1)
        else:
            assert worker.poll()["kind"] == "cancel"
            worker.report(word, kind="cancelled")
            until(
                lambda: caller.get("/v1/jobs/left-cancel").json["state"] == "cancelled", "cancelled"
            )
    worker.leave()


def test_many_calls_at_once_are_answered_to_the_right_callers(caller: Caller) -> None:
    found: dict[int, int] = {}

    def call(n: int) -> None:
        body = {"service": "math", "task": "add", "args": [n, n]}
        found[n] = caller.post("/v1/call", body).json["value"]

    threads = [threading.Thread(target=call, args=(n,)) for n in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == {n: 2 * n for n in range(40)}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "service"),
        ({"service": ""}, "service"),
        ({"service": "s", "args": {}}, "args"),
        ({"service": "s", "surprise": 1}, "surprise"),
        ({"service": "s", "timeout": -1}, "timeout"),
        ({"service": "s", "timeout": "soon"}, "timeout"),
        ({"service": "s", "target": ","}, "names no worker"),
        ({"service": "s", "target": "labels:??"}, "label"),
        ({"service": "s\n", "task": "t"}, "service"),
        ({"service": "s", "job": "x" * 300}, "job"),
        ({"service": "s", "on_disconnect": "panic"}, "on_disconnect"),
        ([1], "object"),
    ],
)
def test_a_body_that_does_not_fit_is_refused_with_a_reason(
    caller: Caller, body: object, words: str
) -> None:
    found = caller.post("/v1/jobs", body)
    assert found.status == 400
    assert found.is_problem
    assert words in found.json["detail"]


def test_a_job_nobody_knows_is_not_found_but_has_an_answer_to_why(caller: Caller) -> None:
    for path in ("/v1/jobs/nope", "/v1/jobs/nope/result", "/v1/jobs/a/b/result"):
        found = caller.get(path)
        assert (found.status, found.json["code"]) == (404, "unknown_job")
    assert caller.ask("DELETE", "/v1/jobs/nope").status == 404
    assert caller.get("/v1/jobs/nope/why").json["reason"] == "unknown"


def test_an_id_with_slashes_and_spaces_is_an_id(caller: Caller) -> None:
    body = CALL | {"job": "a/b c/result"}
    assert caller.post("/v1/jobs", body).headers["location"] == "/v1/jobs/a%2Fb%20c%2Fresult"
    found = caller.get("/v1/jobs/a%2Fb%20c%2Fresult/result?wait=5")
    assert found.json["value"] == 5
