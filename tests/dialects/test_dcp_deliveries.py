"""Messages to DCP workers."""

from typing import Any

import pytest

from dragoman.core.effects import Dismiss, SendBeat, SendCancel, SendInput, SendReply, SendWork
from dragoman.core.events import ReplyKind
from dragoman.dialects.base import Send
from dragoman.dialects.dcp.body_codec import DcpBodyCodec
from dragoman.dialects.dcp.deliveries import Deliveries
from dragoman.dialects.dcp.settings import DcpSettings
from dragoman.dialects.dcp.wire import WIDE, DcpRequest, Pong, Reconnect, decode, encode
from dragoman.dialects.dcp.workers import DcpWorkers, Widths
from dragoman.dialects.notes import read_note, write_note
from dragoman.model.body import Body
from dragoman.model.content import Answer, Call, Unmappable
from dragoman.model.names import JobId, PeerId, ServiceName

WORKER, JOB, ECHO = PeerId("dcp/W1"), JobId("j1"), ServiceName("echo")


class OtherDress(DcpBodyCodec):
    """A dialect whose calls and answers have one part."""

    def read_call(self, body: Body) -> Call:
        return Call("shout", (body.parts[0].decode(),))

    def read_answer(self, body: Body) -> Answer:
        return Answer(body.parts[0].decode())


def fabric(**settings: Any) -> tuple[Deliveries, DcpWorkers]:
    crew = DcpWorkers()
    codecs = {"dcp": DcpBodyCodec(), "other": OtherDress()}
    worker = crew.join(b"W1", WORKER)
    worker.service, worker.reads_notes = b"echo", True
    return Deliveries("dcp", codecs, DcpSettings(**settings), crew, Widths(WIDE, 10)), crew


def work(client: str = "dcp/C1", body: Body | None = None, **more: Any) -> SendWork:
    said = body or Body("dcp", (b"m", b"", b"d"))
    return SendWork(WORKER, JOB, 1, ECHO, PeerId(client), said, **more)


def only(sends: list[Send]) -> DcpRequest:
    (send,) = sends
    assert send.address == b"W1"
    message = decode(send.frames)
    assert isinstance(message, DcpRequest)
    return message


def test_a_request_of_dcp_passes_byte_for_byte() -> None:
    desk, _ = fabric()
    assert only(desk.render(work(), 0.0)) == DcpRequest(b"echo", b"C1", (b"m", b"", b"d"), WIDE)


def test_a_request_of_another_dialect_is_converted_and_its_note_names_the_job() -> None:
    desk, _ = fabric()
    request = only(desk.render(work("nfp/c", Body("other", (b"hi",)), run_until=12.5), 10.0))
    assert request.client == b"nfp/c"
    assert read_note(request.tail[0]) == {"job": "j1", "attempt": 1, "timeout": 2.5}
    converted = Body("dcp", request.tail)
    assert DcpBodyCodec().read_call(converted) == Call("shout", ("hi",))


def test_input_of_another_dialect_answers_the_open_question() -> None:
    desk, crew = fabric()
    desk.render(work(), 0.0)
    crew.present[b"W1"].questions[JOB] = "r7"
    given = SendInput(WORKER, JOB, PeerId("nfp/c"), Body("other", (b"yes",)))
    request = only(desk.render(given, 0.0))
    assert request.tail[0] == b"m"
    assert read_note(request.tail[1]) == {"kind": "input", "request": "r7"}
    assert DcpBodyCodec().read_answer(Body("dcp", request.tail)) == Answer("yes")


def test_a_worker_without_notes_gets_requests_only() -> None:
    desk, crew = fabric()
    desk.render(work(), 0.0)
    crew.present[b"W1"].reads_notes = False
    assert desk.render(SendCancel(WORKER, JOB, 1, PeerId("dcp/C1")), 0.0) == []
    with pytest.raises(Unmappable, match="input"):
        desk.render(SendInput(WORKER, JOB, PeerId("dcp/C1"), Body("dcp", (b"",))), 0.0)


def test_a_cancel_of_a_job_it_does_not_hold_is_not_sent() -> None:
    desk, _ = fabric()
    assert desk.render(SendCancel(WORKER, JOB, 1, PeerId("dcp/C1")), 0.0) == []


def test_only_a_silent_busy_worker_is_checked() -> None:
    desk, crew = fabric(beat_every=1.0, missed_allowed=3)
    assert desk.render(SendBeat(WORKER), 100.0) == []
    desk.render(work(), 0.0)
    crew.present[b"W1"].seen_at = 98.0
    assert desk.render(SendBeat(WORKER), 100.0) == []
    assert desk.render(SendBeat(WORKER), 101.0) == [Send(b"W1", encode(Pong(WIDE)))]


def test_a_dismissed_worker_is_asked_to_register_again_unless_it_left() -> None:
    desk, crew = fabric()
    told = encode(Reconnect(WIDE, (write_note({"reason": "silent"}),)))
    assert desk.render(Dismiss(WORKER, "silent"), 0.0) == [Send(b"W1", told)]
    assert crew.present == {}
    crew.join(b"W1", WORKER).has_left = True
    assert desk.render(Dismiss(WORKER, "left"), 0.0) == []
    assert desk.render(Dismiss(PeerId("dcp/W9"), "who?"), 0.0) == []


def test_effects_for_clients_are_ignored() -> None:
    desk, _ = fabric()
    assert desk.render(SendReply(PeerId("dcp/C1"), JOB, ReplyKind.QUEUED, ECHO), 0.0) == []
