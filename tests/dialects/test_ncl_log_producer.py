"""A node's log streams: followers, early requests, lost consumers."""

from typing import Any

import pytest

from dragoman.dialects.ncl import logs
from dragoman.dialects.ncl.log_producer import LogProducer
from dragoman.dialects.ncl.models import COMPLETED, RUNNING
from dragoman.dialects.ncl.settings import ComputeSettings
from dragoman.dialects.ncl.store import StoredExecution
from dragoman.dialects.peer_sides import Assigned, Stop
from dragoman.model.content import Call
from dragoman.model.names import JobId

NOW = 1000.0


class Stage:
    def __init__(self) -> None:
        self.held: dict[str, StoredExecution] = {"e1": StoredExecution("e1", "j", "batch", RUNNING)}
        self.producing = LogProducer("n-1", "_INBOX.x", ComputeSettings(), self.held.get)

    def ask(self, name: str = "e1", stream: str = "s1", **more: Any) -> list[Any]:
        consumer = more.pop("consumer", "_SINBOX.c.")
        request = logs.LogRequest(name, "n-1", stream, consumer, "_HEARTBEAT.c", **more)
        return read(
            self.producing.receive_request(logs.write_request(request), f"to.{stream}", NOW)
        )


def read(frames: Any) -> list[Any]:
    return [(f[0].decode(), logs.read_stream(f[1])) for f in frames]


def texts(frames: Any) -> list[str]:
    return [found.text for _, found in read(frames) if isinstance(found, logs.LogLine)]


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_follower_gets_what_was_and_what_comes_and_the_end(stage: Stage) -> None:
    stage.producing.progress("e1", 1)
    ((subject, line),) = stage.ask()
    assert (subject, logs.read_line(line)) == ("to.s1", (1, None))
    assert len(stage.producing.progress("e1", 2)) == 1
    assert len(stage.producing.chunk("e1", b"x")) == 1
    assert read(stage.producing.close_streams("e1")) == [("to.s1", logs.Close(logs.NORMAL))]
    assert stage.producing.close_streams("e1") == []


def test_tail_means_from_now_on(stage: Stage) -> None:
    stage.producing.progress("e1", 1)
    assert stage.ask(is_tail=True) == []
    assert len(stage.producing.progress("e1", 2)) == 1


def test_two_may_follow_and_one_may_just_look(stage: Stage) -> None:
    stage.ask(stream="s1")
    stage.ask(stream="s2")
    found = stage.ask(stream="s3", is_following=False)
    assert found == [("to.s3", logs.Close(logs.NORMAL))]
    assert {f[0] for f in stage.producing.progress("e1", 1)} == {b"to.s1", b"to.s2"}


def test_what_is_over_is_shown_and_closed(stage: Stage) -> None:
    stage.held["e1"].state = COMPLETED
    assert stage.ask() == [("to.s1", logs.Close(logs.NORMAL))]
    assert stage.producing.progress("e1", 1) == []


def test_a_request_that_came_before_the_work_waits_for_it(stage: Stage) -> None:
    assert stage.ask("e2", "s2") == []
    stage.held["e2"] = StoredExecution("e2", "j", "batch", RUNNING)
    assert stage.producing.on_notice(Assigned("e2", JobId("j"), Call()), NOW) == []
    assert len(stage.producing.progress("e2", 1)) == 1


def test_a_request_for_nothing_is_refused_after_a_moment(stage: Stage) -> None:
    stage.ask("never", "s2")
    assert stage.producing.tick(NOW + 4) == []
    close = logs.Close(logs.BAD_REQUEST, "no such execution")
    assert read(stage.producing.tick(NOW + 5)) == [("to.s2", close)]


def test_a_request_that_cannot_be_read_is_refused(stage: Stage) -> None:
    ((_, close),) = read(stage.producing.receive_request(b"nonsense", "to.x", NOW))
    assert close.code == logs.BAD_REQUEST
    assert stage.producing.receive_request(b"nonsense", "", NOW) == []


def test_a_stopped_execution_ends_its_streams(stage: Stage) -> None:
    stage.ask()
    assert read(stage.producing.on_notice(Stop("e1"), NOW)) == [("to.s1", logs.Close(logs.NORMAL))]


def question(stage: Stage, after: float) -> tuple[str, dict[str, list[str]]]:
    ((subject, data, _, reply),) = stage.producing.tick(NOW + after)
    assert subject == b"_HEARTBEAT.c"
    return reply.decode().rpartition(".")[2], logs.read_active(data)


def test_consumers_are_asked_every_ten_seconds(stage: Stage) -> None:
    stage.ask()
    assert stage.producing.tick(NOW + 9) == []
    token, active = question(stage, 10)
    assert active == {"node.compute.n-1.ExecutionLogs/v1": ["s1"]}
    assert stage.producing.receive_heartbeat_reply(token, logs.write_non_active({})) == []
    assert len(stage.producing.progress("e1", 1)) == 1


def test_what_a_consumer_does_not_want_any_more_is_dropped(stage: Stage) -> None:
    stage.ask()
    token, active = question(stage, 10)
    stage.producing.receive_heartbeat_reply(token, logs.write_non_active(active))
    assert stage.producing.progress("e1", 1) == []


def test_a_consumer_that_does_not_answer_is_dropped_with_all_its_streams(stage: Stage) -> None:
    stage.ask(stream="s1")
    stage.ask(stream="s2")
    question(stage, 10)
    stage.producing.tick(NOW + 14)
    assert len(stage.producing.progress("e1", 1)) == 2
    stage.producing.tick(NOW + 15)
    assert stage.producing.progress("e1", 2) == []


def test_a_heartbeat_without_responders_drops_it_too(stage: Stage) -> None:
    stage.ask()
    token, _ = question(stage, 10)
    stage.producing.receive_heartbeat_reply(token, b"")
    assert stage.producing.progress("e1", 1) == []
    assert stage.producing.receive_heartbeat_reply("b99", b"") == []


def test_a_node_that_goes_says_so_to_all(stage: Stage) -> None:
    stage.ask()
    assert read(stage.producing.close_all()) == [("to.s1", logs.Close(logs.GOING_AWAY))]


def test_only_the_last_lines_are_kept() -> None:
    stage = Stage()
    stage.producing = LogProducer("n", "_INBOX.x", ComputeSettings(log_lines=2), stage.held.get)
    for number in range(5):
        stage.producing.progress("e1", number)
    assert [logs.read_line(line)[0] for _, line in stage.ask()] == [3, 4]


def test_printed_text_is_sent_in_batches_and_before_later_lines(stage: Stage) -> None:
    stage.ask()
    assert stage.producing.output("e1", "one\n", False) == []
    assert stage.producing.output("e1", "two\n", False) == []
    assert texts(stage.producing.tick(NOW + 1)) == ["one\ntwo\n"]
    stage.producing.output("e1", "three\n", False)
    ((_, first), (_, second)) = read(stage.producing.progress("e1", 4))
    assert (first.text, logs.read_line(second)) == ("three\n", (4, None))
    assert texts(stage.producing.output("e1", "x" * 5000, False)) == ["x" * 5000]


def test_stdout_and_stderr_stay_apart_and_in_order(stage: Stage) -> None:
    stage.ask()
    stage.producing.output("e1", "out\n", False)
    frames = stage.producing.output("e1", "err\n", True) + stage.producing.close_streams("e1")
    lines = [found for _, found in read(frames)]
    assert lines == [
        logs.LogLine("out\n"),
        logs.LogLine("err\n", logs.STDERR),
        logs.Close(logs.NORMAL),
    ]


def test_lines_of_ended_executions_stay_readable_up_to_a_bound() -> None:
    stage = Stage()
    settings = ComputeSettings(log_executions=2)
    stage.producing = LogProducer("n", "_INBOX.x", settings, stage.held.get)
    for name in ("e1", "e2", "e3"):
        stage.held[name] = StoredExecution(name, "j", "batch", RUNNING)
        stage.producing.output(name, f"{name}\n", False)
        stage.held[name].state = COMPLETED
        stage.producing.close_streams(name)
        assert stage.producing.output(name, "late\n", False) == []
    close = logs.Close(logs.NORMAL)
    assert [found for _, found in stage.ask("e1")] == [close]
    assert [found for _, found in stage.ask("e2")] == [logs.LogLine("e2\n"), close]
    assert [found for _, found in stage.ask("e3")] == [logs.LogLine("e3\n"), close]


def test_no_line_exceeds_a_nats_message(stage: Stage) -> None:
    stage.ask()
    data = bytes(range(256)) * 2**13
    frames = stage.producing.chunk("e1", data)
    frames += stage.producing.output("e1", "\x01" * 2**20, False)
    frames += stage.producing.progress("e1", "x" * 2**20)
    assert max(len(f[1]) for f in frames) < 2**20
    lines = [found for _, found in read(frames)]
    pieces = [logs.read_line(line)[1] or b"" for line in lines]
    assert b"".join(pieces) == data
    assert "".join(line.text for line in lines if not line.text.startswith("{")) == "\x01" * 2**20
    assert lines[-1].error == "a report of 1048592 characters exceeds what NATS carries"
