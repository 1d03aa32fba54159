"""The broker's end of NFP with the core: events, frames, and state that is forgotten."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dialects.nfp_fabric import (
    NfpFabric,
    asked,
    body_of,
    event,
    get,
    post,
    ready,
    response,
    result,
    told,
)

from dragoman.core.events import ReplyKind, ReplyReceived, WorkerJoined
from dragoman.dialects.base import EventSide, Frames, MalformedMessage, Send, Subscribed
from dragoman.dialects.nfp import wire
from dragoman.dialects.nfp.broker_side import NfpBrokerSide
from dragoman.dialects.nfp.settings import EVENTS, INVENTORY, MANAGEMENT, NfpSettings
from dragoman.model.body import Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.model.record import Kind, Record

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "vectors/nfp/norfab-0.25.0.json").read_text()
)


def norfab_job(fabric: NfpFabric, uuid: str = "j1") -> None:
    """Run a job on a NorFab worker up to its announcement."""
    fabric.say("c1", post(uuid))
    fabric.say("w1", response("201", {"worker": "w1"}, uuid), event("progress", uuid))
    fabric.say("w1", event("result_ready", uuid))


def test_a_norfab_result_is_fetched_recorded_announced_and_then_handed_out() -> None:
    fabric = NfpFabric()
    fabric.say("w1", ready())
    norfab_job(fabric)
    assert asked(fabric.heard("w1")) == [wire.POST, wire.GET]
    before = told(fabric.heard("c1"))
    assert before == [("RESPONSE", "202"), ("RESPONSE", "201"), ("EVENT", "200")]
    fabric.say("w1", response("200", result()))
    assert Kind.ENDED in fabric.kinds()
    (announcement,) = fabric.heard("c1")
    assert body_of(announcement)["event_type"] == "result_ready"
    fabric.say("c1", get(target='["w1"]'))
    listed, answer = fabric.heard("c1")
    assert body_of(listed)["workers"] == ["w1"]
    assert body_of(answer) == result()


def test_an_unasked_result_goes_to_the_client_at_once() -> None:
    fabric = NfpFabric()
    fabric.say("w1", ready())
    fabric.say("c1", post())
    fabric.say("w1", response("200", result()))
    assert told(fabric.heard("c1")) == [("RESPONSE", "202"), ("RESPONSE", "200")]


def test_nothing_of_a_finished_job_is_kept() -> None:
    fabric = NfpFabric()
    fabric.say("w1", ready())
    for number in range(50):
        uuid = f"j{number}"
        norfab_job(fabric, uuid)
        fabric.say("w1", response("200", result(), uuid))
        fabric.say("c1", get(uuid))
    side = fabric.side
    assert len(side.workers.assignments) == 0
    assert not side.client_jobs.open
    assert not side.client_jobs.gets
    assert not side.workers.announcements
    assert side.next_deadline() is None


def test_a_one_byte_peer_is_answered_in_one_byte() -> None:
    fabric = NfpFabric()
    fabric.say("w1", wire.NfpReady(b"math", is_binary=True))
    fabric.say("c1", post(is_binary=True))
    (task,) = fabric.frames("w1")
    assert task[2] == b"\x04"
    fabric.say("w1", (b"", wire.WORKER, b"\x05", b"math", b"j1", b"200 OK", b"{}"))
    assert [f[2] for f in fabric.frames("c1")] == [b"\x05"]
    fabric.say("c1", post("j2"))
    assert [f[2] for f in fabric.frames("c1")] == [b"0x05"]


def test_open_is_answered_only_to_who_sent_it_and_says_who_we_are() -> None:
    fabric = NfpFabric()
    fabric.say("w1", ready())
    assert fabric.heard("w1") == []
    fabric.say("w2", wire.Open(wire.WORKER, b'{"agent":"x"}'))
    (hello,) = fabric.heard("w2")
    assert body_of(hello)["agent"] == "dragoman"


def test_a_client_that_wants_results_pushed_gets_them_and_hears_that_it_is_queued() -> None:
    fabric = NfpFabric()
    fabric.say("c1", wire.Open(wire.CLIENT, b'{"push":true}'))
    fabric.heard("c1")
    fabric.say("c1", post())
    (queued,) = fabric.heard("c1")
    assert (body_of(queued)["workers"], body_of(queued)["status"]) == ([], "QUEUED")
    fabric.say("w1", ready())
    fabric.say("w1", event("result_ready"), response("200", result()))
    assert told(fabric.heard("c1")) == [("RESPONSE", "202"), ("RESPONSE", "200")]


BUILTIN = PeerId("local/broker")


def with_house(fabric: NfpFabric) -> NfpFabric:
    """Join the built-in services."""
    services = (ServiceName(MANAGEMENT), ServiceName(INVENTORY))
    fabric.do(WorkerJoined(BUILTIN, WorkerName("broker"), services, is_builtin=True))
    return fabric


def ask_broker(fabric: NfpFabric, uuid: str, body: bytes, command: str = wire.MMI) -> None:
    fabric.say("c1", wire.NfpRequest(command, MANAGEMENT.encode(), b"all", uuid.encode(), body))


def test_management_is_a_job_like_any_other_and_answered_twice_by_any_command() -> None:
    fabric = with_house(NfpFabric())
    body = b'{"task":"show_workers","kwargs":{"service":"math"}}'
    for uuid, command in (("u1", wire.MMI), ("u2", wire.POST), ("u3", wire.GET)):
        ask_broker(fabric, uuid, body, command)
        assert fabric.heard("c1") == []
        said = Body(
            "nfp", (b'{"broker":{"result":[uuid]}}'.replace(b"uuid", b'"%b"' % uuid.encode()),)
        )
        fabric.do(ReplyReceived(BUILTIN, JobId(uuid), ReplyKind.FINAL, said))
        answers = fabric.heard("c1")
        assert told(answers) == [("RESPONSE", "200"), ("MMI", "200")]
        assert [body_of(each) for each in answers] == [[uuid], [uuid]]
    ended = [r for r in fabric.records if r.kind == Kind.ENDED]
    assert [(r.service, r.task) for r in ended] == [(MANAGEMENT, "show_workers")] * 3


def test_management_that_fails_says_so_twice() -> None:
    fabric = with_house(NfpFabric())
    ask_broker(fabric, "u1", b'{"task":"unknown"}')
    fault = Fault(FaultCode.TASK_FAILED, "unknown task")
    fabric.do(ReplyReceived(BUILTIN, JobId("u1"), ReplyKind.FINAL, fault=fault))
    answers = fabric.heard("c1")
    assert told(answers) == [("RESPONSE", "400"), ("MMI", "400")]
    assert body_of(answers[1])["error"] == "unknown task"
    assert body_of(answers[1])["code"] == "task_failed"


@pytest.mark.parametrize("body", [b'{"task":1}', b"{}", b"[]", b"\xff"])
def test_management_that_cannot_be_read_is_refused_twice(body: bytes) -> None:
    fabric = with_house(NfpFabric())
    ask_broker(fabric, "u1", body)
    answers = fabric.heard("c1")
    assert told(answers) == [("RESPONSE", "400"), ("MMI", "400")]
    assert body_of(answers[1])["error"]
    assert fabric.notes(Kind.REJECTED)


def test_mmi_to_an_ordinary_service_is_refused_where_its_caller_looks() -> None:
    fabric = NfpFabric()
    fabric.say("c1", wire.NfpRequest(wire.MMI, b"math", b"w1", b"u1", b"{}"))
    assert sorted(told(fabric.heard("c1"))) == [("MMI", "400"), ("RESPONSE", "400")]


def test_an_unknown_command_is_refused_in_seven_frames() -> None:
    fabric = NfpFabric()
    fabric.say("c1", (b"", wire.CLIENT, b"0x99", b"math", b"all", b"u1", b"{}"))
    (frames,) = fabric.frames("c1")
    assert len(frames) == 7
    assert frames[5] == b"400"
    assert fabric.notes(Kind.REJECTED)


def test_a_message_of_a_broker_is_malformed_here() -> None:
    fabric = NfpFabric()
    with pytest.raises(MalformedMessage):
        fabric.say("x", wire.KeepAlive(wire.BROKER, b"math"))
    with pytest.raises(MalformedMessage):
        fabric.say("x", wire.NfpReply(wire.RESPONSE, b"s", b"u", b"200", b"{}"))


def test_a_subscription_is_confirmed_and_given_to_the_loop() -> None:
    fabric = NfpFabric()
    body = b'{"topics":["math.*"],"after":7}'
    fabric.say("c1", wire.NfpRequest(wire.GET, EVENTS.encode(), b"all", b"s1", body))
    assert fabric.subscriptions == [Subscribed(PeerId("nfp/c1"), ("math.*",), 7, "s1")]
    assert told(fabric.heard("c1")) == [("RESPONSE", "200")]
    fabric.say("c1", wire.NfpRequest(wire.DELETE, EVENTS.encode(), b"all", b"s1", b""))
    assert fabric.subscriptions[-1].topics == ()


@pytest.mark.parametrize(
    ("command", "body"), [(wire.GET, b"[1]"), (wire.POST, b"{}"), (wire.GET, b'{"topics":3}')]
)
def test_a_subscription_that_cannot_be_read_is_refused(command: str, body: bytes) -> None:
    fabric = NfpFabric()
    fabric.say("c1", wire.NfpRequest(command, EVENTS.encode(), b"all", b"s1", body))
    assert told(fabric.heard("c1")) == [("RESPONSE", "400")]
    assert fabric.subscriptions == []


def offer(record: Record, body: Body | None = None) -> Any:
    side: EventSide = NfpBrokerSide("nfp")
    (send,) = side.render_event(Subscribed(PeerId("nfp/c1"), ("*",), 0, "s1"), record, body)
    reply = wire.decode(send.frames)
    assert isinstance(reply, wire.NfpReply)
    assert (send.address, reply.command, reply.uuid) == (b"c1", wire.EVENT, b"s1")
    return body_of(reply)


def test_a_published_event_reaches_subscribers_unchanged() -> None:
    record = Record(9, 12.5, Kind.PUBLISHED, detail="math.hot")
    assert offer(record, Body("nfp", (b'{"temp":90}',))) == {
        "seq": 9,
        "at": 12.5,
        "topic": "math.hot",
        "event": {"temp": 90},
    }
    assert offer(record, Body("nfp", (b"\xffhot",)))["event"] == "\\xffhot"


def test_an_event_of_the_broker_is_the_record_without_its_empty_fields() -> None:
    said = offer(Record(3, 1.0, Kind.JOINED, worker="w1"))
    assert said["topic"] == "broker.joined"
    assert said["event"]["worker"] == "w1"
    assert "job" not in said["event"]


# --- replay of captured scenarios ---------------------------------------------------------------

PLAIN = ["job-all", "job-any", "job-name", "job-list", "job-service-all", "events"]


@pytest.mark.parametrize("scenario", PLAIN)
def test_a_captured_scenario_gives_norfabs_client_the_same_frames(scenario: str) -> None:
    replay = Replay(scenario)
    replay.run()
    for client, expected in replay.expected.items():
        assert sorted(replay.received[client]) == sorted(expected)
        assert replay.received[client][0] == expected[0]


class Replay:
    """Captured peers with our broker: they repeat their recorded messages."""

    def __init__(self, scenario: str) -> None:
        mine = [v for v in VECTORS if str(v["name"]).split("/")[0] == scenario]
        self.fabric = NfpFabric()
        self.posts: list[tuple[bytes, Frames]] = []
        self.gets: dict[tuple[bytes, bytes], list[Frames]] = defaultdict(list)
        self.reports: dict[tuple[bytes, bytes], list[Frames]] = defaultdict(list)
        self.results: dict[tuple[bytes, bytes], Frames] = {}
        self.expected: dict[bytes, list[tuple[bytes, ...]]] = defaultdict(list)
        self.received: dict[bytes, list[tuple[bytes, ...]]] = defaultdict(list)
        for vector in mine:
            self._sort(*(tuple(bytes.fromhex(f) for f in vector["frames"]), vector["direction"]))
        self._register()

    def _sort(self, frames: tuple[bytes, ...], direction: str) -> None:
        peer, rest = frames[0], frames[1:]
        message = wire.decode(rest)
        if direction == "broker>client":
            self.expected[peer].append(rest)
        elif isinstance(message, wire.NfpRequest) and message.command == wire.POST:
            self.posts.append((peer, rest))
        elif isinstance(message, wire.NfpRequest):
            self.gets[peer, message.uuid].append(rest)
        elif isinstance(message, wire.NfpReport) and message.status == b"200":
            if message.command == wire.RESPONSE:
                self.results[peer, message.uuid] = rest
            else:
                self.reports[peer, message.uuid].append(rest)
        elif isinstance(message, wire.NfpReport):
            self.reports[peer, message.uuid].append(rest)

    def _register(self) -> None:
        used = {peer for peer, _ in self.reports}
        for vector in VECTORS:
            frames = [bytes.fromhex(f) for f in vector["frames"]]
            if str(vector["name"]).startswith("register/") and frames[0] in used:
                self.fabric.say(frames[0], tuple(frames[1:]))

    def run(self) -> None:
        for client, frames in self.posts:
            self.fabric.say(client, frames)
        while self._turn():
            pass

    def _turn(self) -> bool:
        moved = False
        for worker, _ in list(self.reports):
            for message in self.fabric.heard(worker):
                moved = True
                if isinstance(message, wire.NfpTask) and message.command == wire.POST:
                    for report in self.reports[worker, message.uuid]:
                        self.fabric.say(worker, report)
                elif isinstance(message, wire.NfpTask):
                    self.fabric.say(worker, self.results[worker, message.uuid])
        for client in list(self.expected):
            for frames in self.fabric.frames(client):
                moved = True
                self.received[client].append(tuple(frames))
                self._follow(client, frames)
        return moved

    def _follow(self, client: bytes, frames: Frames) -> None:
        message = wire.decode(frames)
        assert isinstance(message, wire.NfpReply)
        if message.command == wire.EVENT and body_of(message)["event_type"] == "result_ready":
            worker = body_of(message)["worker"].encode()
            (mine,) = [f for f in self.gets[client, message.uuid] if worker in f[4]]
            self.fabric.say(client, mine)


# --- arbitrary messages -------------------------------------------------------------------------

names = st.sampled_from([b"w1", b"w2", b"c1", b"\x00k\x8bEg", b"0xfe"])
words = st.sampled_from([b"math", b"all", b"j1", b"j2", b"any", b"", b"200", b"404", b"\xff"])
bodies = st.sampled_from(
    [
        b"",
        b"[]",
        b'{"task":"add"}',
        b'{"w1":{"result":1,"failed":true}}',
        b'{"event_type":"result_ready","worker":"w1"}',
        b'{"event_type":"input_request"}',
        b'{"push":true,"holds":["j1"],"credit":-1}',
        b"\xff\x00",
    ]
)
anything = st.one_of(
    st.builds(wire.Open, st.sampled_from([wire.CLIENT, wire.WORKER]), bodies),
    st.builds(wire.NfpReady, words, st.booleans()),
    st.builds(wire.KeepAlive, st.just(wire.WORKER), words),
    st.builds(wire.NfpDisconnect, st.just(wire.WORKER), words, st.none() | bodies),
    st.builds(
        wire.NfpRequest,
        st.sampled_from([wire.POST, wire.GET, wire.DELETE, wire.PUT, wire.MMI]),
        words | st.sampled_from([MANAGEMENT.encode(), EVENTS.encode()]),
        words,
        words,
        bodies,
        st.booleans(),
    ),
    st.builds(
        wire.NfpReport,
        st.sampled_from([wire.RESPONSE, wire.EVENT, wire.STREAM]),
        st.sampled_from([b"c1", b""]),
        words,
        st.sampled_from([b"200", b"201", b"300", b"102", b"404", b"417", b"500", b"", b"xyz"]),
        bodies,
    ),
)


@given(st.lists(st.tuples(names, anything, st.sampled_from([0.0, 0.5, 20.0])), max_size=25))
def test_no_message_breaks_the_broker_or_exceeds_its_bounds(
    script: list[tuple[bytes, wire.Message, float]],
) -> None:
    settings = NfpSettings(remembered_jobs=3, remembered_peers=3, patience=5.0)
    fabric = NfpFabric(NfpBrokerSide("nfp", settings=settings))
    for address, message, wait in script:
        try:
            fabric.say(address, message)
        except MalformedMessage:
            fabric.side.validate()
        fabric.advance(wait)
    for address in (b"c1", b"w1", b"w2"):
        assert all(len(f) >= 7 for f in fabric.frames(address) if f[2] in (b"0x05", b"\x05"))


def test_a_send_of_the_sides_own_is_not_held_up_by_the_disk() -> None:
    side = NfpBrokerSide("nfp")
    (answer,) = side.receive(b"w9", wire.encode(wire.KeepAlive(wire.WORKER, b"math")), 1.0)
    assert isinstance(answer, Send)
    assert not answer.is_strict
