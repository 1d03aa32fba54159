"""Captured conversations of NorFab 0.25.0, played again over real sockets against our broker.

The captured peers say what they said, each when its turn comes; the broker has to say what
NorFab's broker said. Three differences are by design and stated in `expects`: our broker fetches a
result as soon as it is announced (so its GET comes earlier and with an empty body), it answers a
client's GET from its own books, and it keeps NorFab's `status` texts but adds an `error`.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.interop.conftest import StartBroker
from tests.interop.harness import ROOT, Fleet
from tests.interop.raw_nfp import GET, KEEPALIVE, MMI, RESPONSE, Raw, until_workers

pytestmark = [pytest.mark.interop, pytest.mark.timeout(150)]

VECTORS: list[dict[str, Any]] = json.loads(
    (ROOT / "tests/vectors/nfp/norfab-0.25.0.json").read_text()
)
JOBS = ["job-all", "job-name", "job-list", "job-service-all", "events"]
FILES = ["fss-list_files", "fss-list_files-unsafe", "fss-file_details-list", "fss-fetch-chunked"]
# The figures of `mmi-get_stats` are checked by NorFab's own strict model, in test_nfp_interop.
MANAGEMENT = ["mmi-show_workers", "mmi-show_workers-filter", "sid-missing"]
REFUSALS = ["no-such-service", "no-such-worker"]


class Step:
    """One captured message."""

    def __init__(self, vector: dict[str, Any]) -> None:
        self.scenario, _, self.label = str(vector["name"]).partition("/")
        self.peer, _, *self.frames = [bytes.fromhex(f) for f in vector["frames"]]
        self.source, _, self.sink = str(vector["direction"]).partition(">")


STEPS = [Step(vector) for vector in VECTORS]


class Play:
    """The captured peers of some scenarios, on one broker."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.peers: dict[bytes, Raw] = {}
        self.inbox: dict[bytes, list[list[bytes]]] = defaultdict(list)
        #: What workers answer a GET with, once they announced it.
        self.results: dict[tuple[bytes, bytes], list[bytes]] = {}
        #: The first thing each client heard about each job.
        self.first: dict[tuple[bytes, bytes], bytes] = {}

    def close(self) -> None:
        for peer in self.peers.values():
            peer.close()

    def register(self, *workers: bytes) -> None:
        for step in STEPS:
            if step.scenario == "register" and step.peer in workers:
                self.say(step)
        until_workers(self.endpoint, *[w.decode() for w in workers])

    def say(self, step: Step) -> None:
        if step.peer not in self.peers:
            self.peers[step.peer] = Raw(self.endpoint, step.peer)
        self.peers[step.peer].send(*step.frames)

    def run(self, scenario: str) -> None:
        mine = [s for s in STEPS if s.scenario == scenario]
        for step in mine:
            if step.source == "worker" and _is_result(step.frames):
                self.results[step.peer, step.frames[4]] = step.frames
        for step in mine:
            if step.source == "broker":
                self._expect(step)
            elif not _is_result(step.frames):
                self.say(step)

    def _expect(self, step: Step) -> None:
        """Wait for what the broker said in the capture; everything else stays in the inbox."""
        if step.sink == "worker" and step.frames[1] == GET:
            # Ours came when the result was announced, and was answered there and then.
            return
        wanted = masked(step.frames)
        for _ in range(200):
            self._hear(0.05)
            found = [f for f in self.inbox[step.peer] if masked(f) == wanted]
            if found:
                self.inbox[step.peer].remove(found[0])
                return
        raise AssertionError(
            f"{step.scenario}/{step.label}: not said: {wanted}\nin the inbox: {self.inbox}"
        )

    def _hear(self, at_most: float) -> None:
        for name, peer in self.peers.items():
            while (frames := peer.get_or_none(at_most)) is not None:
                at_most = 0.0
                if frames[1] == GET and (name, frames[4]) in self.results:
                    peer.send(*self.results[name, frames[4]])
                elif frames[1] not in (GET, KEEPALIVE):
                    self.inbox[name].append(frames)
                    if frames[1] == RESPONSE and b".service." not in frames[2]:
                        self.first.setdefault((name, frames[3]), frames[4])

    def begins_with_202(self) -> bool:
        """Whether clients heard first who has their job, or that nobody has."""
        first, self.first = set(self.first.values()), {}
        return first <= {b"202"} or first == {b"400"}


def _is_result(frames: list[bytes]) -> bool:
    return frames[1] == RESPONSE and len(frames) > 5 and frames[5] == b"200"


def masked(frames: list[bytes]) -> tuple[Any, ...]:
    """Leave out what no two brokers have in common: times, counters, order of workers."""
    *head, body = frames
    try:
        said = json.loads(body)
    except ValueError:
        return (*head, body)
    if frames[2] == b"mmi.service.broker":
        return (*head, shape(said))
    if isinstance(said, dict) and "workers" in said:
        said["workers"] = sorted(said["workers"] or [])
    if isinstance(said, dict) and said.get("status") == "FAILED":
        said = {key: said[key] for key in ("workers", "uuid", "target", "status", "service")}
    return (*head, json.dumps(said, sort_keys=True))


def shape(said: Any) -> Any:
    """The names and types in a JSON value."""
    if isinstance(said, dict):
        return tuple(sorted((key, shape(value)) for key, value in said.items()))
    if isinstance(said, list):
        return tuple(sorted({repr(shape(value)) for value in said}))
    return "number" if isinstance(said, int | float) else type(said).__name__


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    fleet = Fleet(tmp_path_factory.mktemp("play"))
    broker = fleet.broker(settings="[nfp]\npatience = 0\n")
    play = Play(broker.endpoints["nfp"])
    play.register(b"demo-worker-1", b"demo-worker-2", b"fs-worker-1")
    yield play
    play.close()
    fleet.end()


@pytest.mark.parametrize("scenario", [*JOBS, *FILES, *MANAGEMENT, *REFUSALS])
def test_our_broker_says_what_norfabs_broker_said(play: Play, scenario: str) -> None:
    play.run(scenario)
    assert play.begins_with_202()
    leftover = {peer: box for peer, box in play.inbox.items() if box}
    play.inbox.clear()
    assert not leftover


@pytest.mark.parametrize("scenario", ["job-any", "pending-poll", "input"])
def test_a_conversation_with_one_worker_is_the_same(
    broker: StartBroker, tmp_path: Path, scenario: str
) -> None:
    play = Play(broker(settings="[nfp]\npatience = 0\n").endpoints["nfp"])
    try:
        play.register(b"demo-worker-1")
        play.run(scenario)
        assert not any(play.inbox.values())
        if scenario == "input":
            # Another client asks for the same result later.
            play.run("foreign-get")
    finally:
        play.close()


def test_an_unknown_workers_keepalive_gets_a_disconnect_and_its_ready_is_heard(
    broker: StartBroker,
) -> None:
    endpoint = broker().endpoints["nfp"]
    play = Play(endpoint)
    try:
        play.run("third-party-broker-unknown-worker")
        until_workers(endpoint, "demo-worker-1")
    finally:
        play.close()


def test_beats_go_both_ways(broker: StartBroker) -> None:
    endpoint = broker(settings="[nfp]\nbeat_every = 0.1\n").endpoints["nfp"]
    steps = [s for s in STEPS if s.scenario == "keepalive"]
    with Raw(endpoint, steps[0].peer) as worker:
        worker.send(b"NFPW01", b"0x01", b"demo")
        worker.send(*steps[0].frames)
        assert worker.get() == steps[1].frames


def test_an_unsupported_command_is_refused_in_seven_frames(broker: StartBroker) -> None:
    endpoint = broker().endpoints["nfp"]
    (asked, _) = [s for s in STEPS if s.scenario == "reject-unknown-command"]
    with Raw(endpoint, asked.peer) as client:
        client.send(*asked.frames)
        *head, body = client.get()
        assert head == [b"NFPB01", RESPONSE, b"demo", asked.frames[4], b"400"]
        assert "0x99" in json.loads(body)["error"]
        # MMI to a worker has no answer at all from NorFab's broker.
        (step,) = [s for s in STEPS if s.scenario == "mmi-to-worker"]
        client.send(*step.frames)
        commands = {client.get()[1], client.get()[1]}
        assert commands == {RESPONSE, MMI}
