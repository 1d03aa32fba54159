"""Our own HTTP peers: what they ask for, and what they make of the answers."""

import json
from typing import Any

from dragoman.dialects.base import Frames
from dragoman.dialects.http.client_side import HttpClientSide
from dragoman.dialects.http.worker_side import HttpWorkerSide
from dragoman.dialects.peer_sides import (
    Alive,
    Assigned,
    Chunk,
    Dismissed,
    Dispatched,
    Finished,
    InputAsked,
    InputGiven,
    Progress,
    Published,
    Queued,
    SendNow,
    StatusNotice,
    Stop,
    Submission,
)
from dragoman.model.content import Answer, Call
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.job import JobState
from dragoman.model.names import JobId, WorkerName
from dragoman.model.target import ALL

J = JobId("j")


def said(frames: Frames) -> tuple[str, str, Any]:
    """Return method, target and JSON body of a request."""
    body = json.loads(frames[6]) if frames[6] else None
    return frames[3].decode(), frames[4].decode(), body


def answer(tag: str, status: int, body: Any) -> Frames:
    return [tag.encode(), str(status).encode(), json.dumps(body).encode()]


def told(**event: Any) -> Frames:
    return [b"inbox", b"event", event["kind"].encode(), json.dumps(event).encode()]


def client(*jobs: str) -> HttpClientSide:
    side = HttpClientSide("me")
    for number, job in enumerate(jobs, 1):
        side.submit(Submission(JobId(job), "s", Call("t")))
        side.receive(answer(f"bulk:{number}", 200, {"jobs": [{"job": job, "state": "queued"}]}))
    return side


def submit(side: HttpClientSide, *jobs: str, task: str = "t") -> list[Frames]:
    return [
        frames for job in jobs for frames in side.submit(Submission(JobId(job), "s", Call(task)))
    ]


# --- clients ----------------------------------------------------------------------------------


def test_a_client_opens_its_inbox_under_a_name_that_may_be_one() -> None:
    (frames,) = HttpClientSide("-my host/1").hello()
    assert frames[2] == b"first"
    assert said(frames)[:2] == ("GET", "/v1/inbox")
    assert frames[5] == b"Dragoman-Client: my-host-1"


def test_an_order_is_a_submission_under_its_own_id() -> None:
    order = Submission(J, "s", Call("t", (b"\x00",), {"a": 1}, timeout=3.0), ALL, 5, "key")
    (frames,) = HttpClientSide("me").submit(order)
    method, path, body = said(frames)
    assert (method, path) == ("POST", "/v1/jobs/bulk")
    (body,) = body["jobs"]
    assert body["job"] == "j"
    assert body["args"] == [{"$bytes": "AA=="}]
    assert (body["target"], body["priority"], body["key"], body["timeout"]) == ("all", 5, "key", 3)


def test_raw_bytes_are_submitted_with_their_terms_in_the_query() -> None:
    (frames,) = HttpClientSide("me").submit(Submission(J, "s", Call(raw=b"\x00\x01")))
    assert frames[6] == b"\x00\x01"
    assert b"service=s" in frames[4]


def test_what_the_inbox_says_becomes_notices() -> None:
    side = client("j")
    at = {"job": "j", "worker": "w"}
    assert side.receive(told(kind="queued", **at)) == [Queued(J)]
    assert side.receive(told(kind="dispatched", workers=["w"], **at)) == [
        Dispatched(J, (WorkerName("w"),))
    ]
    assert side.receive(told(kind="progress", value={"n": 1}, **at)) == [Progress(J, {"n": 1}, "w")]
    assert side.receive(told(kind="chunk", value={"$bytes": "AA=="}, raw=True, **at)) == [
        Chunk(J, b"\x00", "w")
    ]
    assert side.receive(told(kind="chunk", value="text", **at)) == [Chunk(J, b"text", "w")]
    assert side.receive(told(kind="input_asked", value="name?", request="q", **at)) == [
        InputAsked(J, "q", "name?", "w")
    ]
    assert side.receive(told(kind="input_asked", value="name?", **at)) == [
        InputAsked(J, "j", "name?", "w")
    ]
    assert side.receive(told(kind="final", value=3, state="succeeded", **at)) == [
        Finished(J, (Answer(3, worker="w"),), None, JobState.SUCCEEDED)
    ]
    assert side.receive(told(kind="final", value=3, state="succeeded", **at)) == []


def test_a_fault_ends_the_job_by_its_name() -> None:
    fault = {"code": "job_timeout", "message": "too long"}
    (done,) = client("j").receive(told(kind="final", job="j", state="expired", fault=fault))
    assert done == Finished(J, (), Fault(FaultCode.JOB_TIMEOUT, "too long"), JobState.EXPIRED)


def test_the_results_of_several_workers_are_fetched_together() -> None:
    side = client("j")
    (reply,) = side.receive(told(kind="final", job="j", state="succeeded"))
    assert isinstance(reply, SendNow)
    assert said(reply.frames)[:2] == ("GET", "/v1/jobs/j/result")
    results = {"a": {"value": 1}, "b": {"value": {"$bytes": "AA=="}, "raw": True}}
    (done,) = side.receive(answer("result:j", 200, {"state": "succeeded", "results": results}))
    assert isinstance(done, Finished)
    assert done.answers == (Answer(1, worker="a"), Answer(raw=b"\x00", worker="b"))


def test_a_new_inbox_asks_about_every_job_the_broker_has() -> None:
    side = client("j", "k")
    side.submit(Submission(JobId("unheard"), "s", Call("t")))
    asked = side.receive([b"inbox", b"open"])
    assert [said(r.frames)[1] for r in asked if isinstance(r, SendNow)] == [
        "/v1/jobs/j/result",
        "/v1/jobs/k/result",
    ]


def test_submissions_that_wait_for_the_one_before_travel_together_in_order() -> None:
    side = HttpClientSide("me")
    (first,) = submit(side, "a", "b", "c", "b")
    assert [each["job"] for each in said(first)[2]["jobs"]] == ["a"]
    notices = side.receive(answer("bulk:1", 200, {"jobs": [{"job": "a", "state": "queued"}]}))
    assert notices[0] == Queued(JobId("a"))
    assert isinstance(notices[1], SendNow)
    assert [each["job"] for each in said(notices[1].frames)[2]["jobs"]] == ["b", "c"]


def test_a_large_submission_goes_alone_and_overtakes_none() -> None:
    side = HttpClientSide("me")
    submit(side, "a", "b")
    waiting, large = submit(side, "large", task="t" * 300_000)
    assert [each["job"] for each in said(waiting)[2]["jobs"]] == ["b"]
    assert said(large)[1] == "/v1/jobs"
    assert waiting[1] == large[1]
    submit(side, "c")
    *_, raw = side.submit(Submission(JobId("raw"), "s", Call(raw=b"x")))
    assert raw[4].startswith(b"/v1/jobs?")
    assert side.receive(answer("submit:large", 202, {})) == [Queued(JobId("large"))]


def test_a_submission_that_the_broker_cannot_read_is_known_by_its_position() -> None:
    side = HttpClientSide("me")
    submit(side, "a")
    problem = {"job": "", "code": "bad_request", "detail": "no", "definite": True, "status": 400}
    (done, *_) = side.receive(answer("bulk:1", 200, {"jobs": [problem]}))
    assert isinstance(done, Finished)
    assert (done.job, done.fault) == ("a", Fault(FaultCode.BAD_REQUEST, "no"))


def test_a_refusal_ends_the_job_and_a_passing_trouble_does_not() -> None:
    side = HttpClientSide("me")
    submit(side, "first", "a", "b", "c")
    side.receive(answer("bulk:1", 200, {"jobs": [{"job": "first", "state": "queued"}]}))
    full = {"job": "a", "code": "queue_full", "detail": "later", "definite": True, "status": 429}
    large = {"job": "b", "code": "content_too_large", "detail": "big", "status": 413}
    busy = {"job": "c", "code": "busy", "status": 503}
    one, two = side.receive(answer("bulk:2", 200, {"jobs": [full, large, busy]}))
    assert isinstance(one, Finished)
    assert one.fault == Fault(FaultCode.QUEUE_FULL, "later")
    assert isinstance(two, Finished)
    assert two.fault == Fault(FaultCode.TOO_LARGE, "big")
    (again,) = submit(side, "c")
    assert [each["job"] for each in said(again)[2]["jobs"]] == ["c"]


def test_a_refused_batch_refuses_each_job_and_one_that_is_too_large_is_split() -> None:
    side = HttpClientSide("me")
    submit(side, "a", "b", "c")
    denied = {"code": "denied", "detail": "no", "definite": True}
    one, more = side.receive(answer("bulk:1", 403, denied))
    assert isinstance(one, Finished)
    assert one.fault == Fault(FaultCode.DENIED, "no")
    assert isinstance(more, SendNow)
    alone = side.receive(answer("bulk:2", 413, {"detail": "big"}))
    sent = [said(each.frames) for each in alone if isinstance(each, SendNow)]
    assert [(path, body["job"]) for _, path, body in sent] == [
        ("/v1/jobs", "b"),
        ("/v1/jobs", "c"),
    ]
    (done,) = side.receive(answer("submit:b", 413, {"detail": "big"}))
    assert isinstance(done, Finished)
    assert done.fault == Fault(FaultCode.TOO_LARGE, "big")


def test_how_a_job_stands_is_told_while_it_is_open_and_its_end_once_it_is_not() -> None:
    side = client("j")
    assert side.receive(answer("result:j", 202, {"state": "running"})) == [
        StatusNotice(J, "running")
    ]
    assert side.receive(answer("result:j", 503, {"code": "busy"})) == []
    problem = {"code": "task_failed", "detail": "no", "definite": True, "state": "failed"}
    (done,) = side.receive(answer("result:j", 500, problem))
    assert done == Finished(J, (), Fault(FaultCode.TASK_FAILED, "no"), JobState.FAILED)


def test_a_cancel_waits_until_the_broker_has_the_job() -> None:
    side = HttpClientSide("me")
    side.submit(Submission(J, "s", Call("t")))
    assert side.cancel(J) == []
    notices = side.receive(answer("bulk:1", 200, {"jobs": [{"job": "j", "state": "queued"}]}))
    assert isinstance(notices[1], SendNow)
    assert said(notices[1].frames)[:2] == ("DELETE", "/v1/jobs/j")
    cancelled = {"state": "cancelled", "fault": {"code": "cancelled", "message": "stopped"}}
    assert side.receive(answer("cancel:j", 200, cancelled)) == [
        StatusNotice(J, "cancelled", "stopped")
    ]
    assert side.receive(answer("cancel:j", 404, {"detail": "who?"})) == [
        StatusNotice(J, "unknown", "who?")
    ]


def test_events_input_and_garbage() -> None:
    side = client("j")
    (frames,) = side.subscribe(("a.*",), 7)
    assert frames[2] == b"stream"
    assert said(frames)[1] == "/v1/events?topic=a.%2A&after=7"
    event = json.dumps({"seq": 8, "topic": "a.b", "event": {"x": 1}}).encode()
    assert side.receive([b"events", b"event", b"a.b", event]) == [Published(8, "a.b", {"x": 1})]
    (frames,) = side.give_input(J, "q", "bob", "w")
    assert said(frames)[2] == {"request": "q", "value": "bob", "worker": "w"}
    garbage: list[Frames] = [[], [b"x"], [b"inbox", b"event", b"", b"{"], [b"events", b"event"]]
    for each in garbage:
        assert side.receive(each) == []


# --- workers ----------------------------------------------------------------------------------


def joined() -> HttpWorkerSide:
    side = HttpWorkerSide("w", ("s",), credit=2)
    side.join()
    side.receive(answer("join", 201, {"session": "0a"}))
    return side


def give(side: HttpWorkerSide, job: str = "j", attempt: int = 1, word: int = 1, **more: Any) -> Any:
    body = {"word": word, "kind": "job", "job": job, "attempt": attempt, "task": "t", **more}
    return hear(side, body)


def hear(side: HttpWorkerSide, *messages: dict[str, Any]) -> Any:
    return side.receive(answer("poll", 200, {"messages": messages}))


def reports(frames: Frames) -> list[dict[str, Any]]:
    """Return the reports that travel together."""
    method, path, body = said(frames)
    assert (method, path) == ("POST", "/v1/workers/0a/reports")
    found: list[dict[str, Any]] = body["reports"]
    return found


def test_a_worker_registers_and_then_always_polls() -> None:
    side = HttpWorkerSide("w", ("s",), credit=2, labels={"a": "b"})
    (frames,) = side.join()
    assert said(frames)[2] == {"name": "w", "services": ["s"], "credit": 2, "labels": {"a": "b"}}
    alive, poll = side.receive(answer("join", 201, {"session": "0a"}))
    assert alive == Alive()
    assert isinstance(poll, SendNow)
    assert said(poll.frames)[1:] == (
        "/v1/workers/0a/poll",
        {"wait": 20.0, "after": 0, "most": 256},
    )
    alive, again = hear(side)
    assert isinstance(again, SendNow)


def test_the_next_poll_says_that_a_word_has_arrived() -> None:
    side = joined()
    work, poll = give(side, word=5, args=[{"$bytes": "AA=="}], timeout=2.5, service="s", client="c")
    assert work == Assigned("j/1", J, Call("t", (b"\x00",), timeout=2.5), "s", "c", 2.5)
    assert said(poll.frames)[2]["after"] == 5


def test_a_job_said_twice_is_run_once() -> None:
    side = joined()
    give(side)
    assert [type(w) for w in give(side)] == [SendNow]
    side.finish("j/1", Answer(1))
    side.receive(answer("reports:1", 200, {"reports": [{"status": "taken"}]}))
    assert [type(w) for w in give(side)] == [SendNow]


def test_one_poll_brings_many_messages() -> None:
    side = joined()
    job = {"kind": "job", "attempt": 1, "task": "t"}
    *work, poll = hear(side, {"word": 1, "job": "a", **job}, {"word": 2, "job": "b", **job})
    assert [each.ticket for each in work] == ["a/1", "b/1"]
    assert said(poll.frames)[2]["after"] == 2


def test_last_reports_that_wait_for_the_ones_before_travel_together() -> None:
    side = joined()
    for word, job in enumerate("abc", 1):
        give(side, job, word=word)
    (first,) = side.finish("a/1", Answer(1))
    assert reports(first) == [{"kind": "final", "value": 1, "job": "a", "attempt": 1}]
    assert side.finish("b/1", Answer(2)) == side.finish("c/1", Answer(3)) == []
    alive, rest = side.receive(answer("reports:1", 200, {"reports": [{"status": "taken"}]}))
    assert isinstance(rest, SendNow)
    assert (alive, [each["job"] for each in reports(rest.frames)]) == (Alive(), ["b", "c"])
    assert said(side.join()[0])[2]["holds"] == ["b", "c"]
    side.receive(answer("reports:2", 200, {}))
    assert said(side.join()[0])[2]["holds"] == []


def test_a_worker_that_leaves_sends_the_reports_that_wait_first() -> None:
    side = joined()
    for word, job in enumerate("ab", 1):
        give(side, job, word=word)
        side.finish(f"{job}/1", Answer(1))
    waiting, leave = side.leave()
    assert [each["job"] for each in reports(waiting)] == ["b"]
    assert leave[2] == b"last"


def test_reports_that_are_too_large_together_are_sent_one_by_one() -> None:
    side = joined()
    for word, job in enumerate("abc", 1):
        give(side, job, word=word)
        side.finish(f"{job}/1", Answer(1))
    side.receive(answer("reports:1", 200, {}))
    notices = side.receive(answer("reports:2", 413, {}))
    sent = [said(each.frames)[1] for each in notices if isinstance(each, SendNow)]
    assert sent == ["/v1/workers/0a/jobs/b/1", "/v1/workers/0a/jobs/c/1"]
    side.receive(answer("report:1", 200, {}))
    assert said(side.join()[0])[2]["holds"] == ["c"]


def test_raw_bytes_come_and_go_as_such() -> None:
    side = joined()
    work, _ = give(side, raw=True, value={"$bytes": "AAE="})
    assert work.call.raw == b"\x00\x01"
    (frames,) = side.finish("j/1", Answer(raw=b"\x02"))
    assert (frames[4], frames[6]) == (b"/v1/workers/0a/jobs/j/1?kind=final", b"\x02")


def test_reports_of_a_job_share_a_lane_so_that_they_stay_in_order() -> None:
    side = joined()
    give(side)
    frames = [*side.progress("j/1", 1), *side.chunk("j/1", b"x"), *side.finish("j/1", Answer(2))]
    assert {f[1] for f in frames} == {b"j/1"}
    assert len({f[0] for f in frames}) == 3


def test_how_a_job_ends_is_said_in_the_words_of_the_door() -> None:
    ends = {
        "a": Answer(1),
        "b": Answer(fault=Fault(FaultCode.TASK_FAILED, "no")),
        "c": Answer(fault=Fault(FaultCode.CANCELLED)),
        "d": Answer(float("nan")),
    }
    side = joined()
    said_ = {}
    for word, (job, end) in enumerate(ends.items(), 1):
        give(side, job, word=word)
        (frames,) = side.finish(f"{job}/1", end)
        (said_[job],) = reports(frames)
        side.receive(answer(f"reports:{word}", 200, {}))
    assert said_["a"] == {"kind": "final", "value": 1, "job": "a", "attempt": 1}
    assert said_["b"]["fault"] == {"code": "task_failed", "message": "no"}
    assert said_["c"]["kind"] == "cancelled"
    assert said_["d"]["fault"]["code"] == "unmappable"
    give(side, "e", word=9)
    give(side, "f", word=10)
    assert reports(side.hand_back("e/1")[0])[0]["kind"] == "handed_back"
    side.receive(answer("reports:5", 200, {}))
    assert reports(side.forward("f/1", "n", Call("u", (1,)))[0])[0]["service"] == "n"
    assert side.take("f/1") == []


def test_a_question_is_answered_by_name_or_because_it_is_the_only_one() -> None:
    side = joined()
    give(side)
    side.ask_input("j/1", "q", "name?")
    word = {"word": 2, "kind": "input", "job": "j", "value": "bob", "request": "j"}
    assert hear(side, word)[0] == InputGiven("j/1", "q", "bob")
    word |= {"word": 3, "request": "other"}
    assert hear(side, word)[0] == InputGiven("j/1", "other", "bob")


def test_a_stop_is_for_the_attempt_that_runs() -> None:
    side = joined()
    give(side)
    stop = {"word": 2, "kind": "cancel", "job": "j", "attempt": 1}
    assert hear(side, stop)[0] == Stop("j/1")
    stop |= {"word": 3, "attempt": 2}
    assert [type(w) for w in hear(side, stop)] == [SendNow]


def test_after_a_restart_of_the_broker_the_worker_comes_back_with_what_it_holds() -> None:
    side = joined()
    give(side)
    give(side, "k", word=2)
    (final,) = side.finish("k/1", Answer(1))
    lost = {"code": "unknown_session", "detail": "who?"}
    assert side.receive(answer("poll", 404, lost)) == [Dismissed("who?")]
    assert side.receive(answer("reports:1", 404, lost)) == []
    (frames,) = side.join()
    assert said(frames)[2]["session"] == "0a"
    assert said(frames)[2]["holds"] == ["j", "k"]
    words = side.receive(answer("join", 201, {"session": "0a"}))
    again = [w.frames for w in words if isinstance(w, SendNow) and w.frames[6] == final[6]]
    assert [frames[0] for frames in again] == [b"reports:2"]
    side.receive(answer("reports:2", 200, {}))
    assert said(side.join()[0])[2]["holds"] == ["j"]


def test_a_report_is_said_again_while_the_broker_has_trouble() -> None:
    side = joined()
    give(side)
    (final,) = side.finish("j/1", Answer(1))
    (again,) = side.receive(answer("reports:1", 503, {"code": "busy"}))
    assert isinstance(again, SendNow)
    assert again.frames[6] == final[6]
    give(side, "k", word=2)
    (progress,) = side.progress("k/1", 1)
    assert side.receive(answer("report:1", 503, {"code": "busy"})) == [SendNow(progress)]


def test_a_beat_is_a_poll_or_the_registration_that_has_not_come_about() -> None:
    side = HttpWorkerSide("w", ("s",))
    assert side.leave() == []
    assert said(side.beat()[0])[1] == "/v1/workers"
    assert side.receive(answer("join", 503, {})) == []
    side.receive(answer("join", 201, {"session": "0a"}))
    assert said(side.beat()[0])[1] == "/v1/workers/0a/poll"
    assert side.leave()[0][2] == b"last"
    assert said(side.publish("t", 1)[0])[1] == "/v1/workers/0a/events"


def test_what_is_published_before_there_is_a_session_is_said_in_it_in_order() -> None:
    side = HttpWorkerSide("w", ("s",))
    side.join()
    assert [*side.publish("a", 1), *side.publish("b", 2)] == []
    words = side.receive(answer("join", 201, {"session": "0a"}))
    sent = [said(word.frames) for word in words if isinstance(word, SendNow)]
    assert sent[:2] == [
        ("POST", "/v1/workers/0a/events", {"topic": "a", "event": 1}),
        ("POST", "/v1/workers/0a/events", {"topic": "b", "event": 2}),
    ]
    side.receive(answer("report:1", 202, {}))
    again = side.receive(answer("join", 201, {"session": "0a"}))
    topics = [said(w.frames)[2].get("topic") for w in again if isinstance(w, SendNow)]
    assert topics == ["b", None]


def test_garbage_is_ignored() -> None:
    side = joined()
    for frames in (
        [],
        [b"poll"],
        answer("poll", 200, {"messages": [{"word": 1, "kind": "job"}, 7]}),
    ):
        assert not [w for w in side.receive(frames) if isinstance(w, Assigned)]
    assert side.receive(answer("poll", 500, {})) == []
