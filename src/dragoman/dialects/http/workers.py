"""The broker's half of HTTP workers: sessions that poll for words and post reports.

What a worker was given is remembered until it reports the end, so that a report that is posted
twice (its answer was lost) is recognised, and one that is too late is called so.
"""

from collections import OrderedDict
from typing import Final

from dragoman.core.effects import SendCancel, SendInput, SendPoll, SendWork
from dragoman.core.events import (
    BeatReceived,
    Event,
    JobForwarded,
    Noted,
    PeerLeft,
    ReplyKind,
    ReplyReceived,
    WorkerJoined,
)
from dragoman.dialects.base import (
    BodyCodecs,
    Frames,
    MalformedMessage,
    Send,
    convert_answer,
    convert_call,
)
from dragoman.dialects.http import wire
from dragoman.dialects.http.body_codec import NAME, code_of
from dragoman.dialects.http.settings import HttpSettings
from dragoman.model.body import EMPTY, Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName, name_of, raw_of
from dragoman.model.record import Kind
from dragoman.model.target import resources_of

Heard = list[Event | Send]

#: What a report may be about, and what it is to the core.
_KINDS: Final = {
    "accepted": ReplyKind.ACCEPTED,
    "progress": ReplyKind.PROGRESS,
    "chunk": ReplyKind.CHUNK,
    "ask": ReplyKind.INPUT_ASKED,
    "final": ReplyKind.FINAL,
    "handed_back": ReplyKind.FINAL,
    "cancelled": ReplyKind.FINAL,
}
_FAULTS: Final = {
    "handed_back": Fault(FaultCode.HANDED_BACK, "handed back by its worker"),
    "cancelled": Fault(FaultCode.CANCELLED, "stopped as asked"),
}
#: The answers to a report.
TAKEN, REPEATED, LATE = "taken", "repeated", "late"


class Workers:
    """All HTTP workers of one link."""

    def __init__(self, codecs: BodyCodecs, settings: HttpSettings) -> None:
        self._codecs = codecs
        self._settings = settings
        #: By worker, the attempt of each job it was given and has not ended.
        self._held: dict[PeerId, dict[str, int]] = {}
        self._ended: OrderedDict[tuple[PeerId, str, int], None] = OrderedDict()

    # --- what workers say ---------------------------------------------------------------------

    def join(self, peer: PeerId, said: wire.Join, parts: Frames) -> Heard:
        """Register a worker, or hear again what it offers."""
        settings = self._settings
        held = self._held.setdefault(peer, {})
        for job in set(held) - set(said.holds or ()):
            del held[job]
        joined = WorkerJoined(
            peer,
            WorkerName(said.name),
            tuple(map(ServiceName, said.services)),
            credit=said.credit,
            credit_returns=True,
            beat_every=settings.beat_every,
            missed_allowed=settings.missed_allowed,
            missed_allowed_busy=self._busy(said.busy_lease),
            labels=said.labels,
            resources=said.resources,
            can_cancel=True,
            holds=frozenset(map(JobId, said.holds or ())),
            dialect=NAME,
        )
        return [joined, heard(peer, said.request, TAKEN)]

    def _busy(self, lease: float) -> int | None:
        """Return how many beats a busy worker may miss, if it asked for more than others."""
        asked = min(lease, self._settings.longest_lease) / self._settings.beat_every
        return int(asked) if asked > self._settings.missed_allowed else None

    def beat(self, peer: PeerId, said: wire.Beat, parts: Frames) -> Heard:
        """Keep a worker's lease."""
        return [BeatReceived(peer)]

    def report(self, peer: PeerId, said: wire.Report, parts: Frames) -> Heard:
        """Take a report in, unless it was taken in before."""
        kind = _KINDS.get(said.about)
        if kind is None:
            raise MalformedMessage(f"a report is not about {said.about!r}")
        verdict = self._verdict(peer, said.job, said.attempt, kind is ReplyKind.FINAL)
        answer = heard(peer, said.request, verdict)
        if verdict == REPEATED:
            return [answer]
        fault = _FAULTS.get(said.about)
        if said.fault:
            fault = Fault(code_of(said.fault), said.words)
        body = Body(NAME, tuple(parts)) if parts else EMPTY
        reply = ReplyReceived(peer, JobId(said.job), kind, body, fault, said.attempt)
        return [reply, answer]

    def forward(self, peer: PeerId, said: wire.Forward, parts: Frames) -> Heard:
        """Pass a job on."""
        verdict = self._verdict(peer, said.job, said.attempt, True)
        answer = heard(peer, said.request, verdict)
        if verdict == REPEATED:
            return [answer]
        passed = JobForwarded(
            peer,
            JobId(said.job),
            ServiceName(said.service),
            Body(NAME, tuple(parts)),
            task=said.task,
            attempt=said.attempt,
        )
        return [passed, answer]

    def _verdict(self, peer: PeerId, job: str, attempt: int, is_end: bool) -> str:
        if (peer, job, attempt) in self._ended:
            return REPEATED
        held = self._held.get(peer, {})
        if held.get(job) != attempt:
            return LATE
        if is_end:
            del held[job]
            self._ended[peer, job, attempt] = None
            if len(self._ended) > self._settings.remembered:
                self._ended.popitem(last=False)
        return TAKEN

    def publish(self, peer: PeerId, said: wire.Publish, parts: Frames) -> Heard:
        """Put an event on record, for whoever subscribed."""
        body = Body(NAME, tuple(parts))
        noted = Noted(Kind.PUBLISHED, peer, said.topic, body, dialect=NAME)
        return [noted, heard(peer, said.request, TAKEN)]

    def leave(self, peer: PeerId, said: wire.Leave, parts: Frames) -> Heard:
        """Let a worker go."""
        self._held.pop(peer, None)
        return [PeerLeft(peer, said.reason or "said good-bye")]

    # --- what workers are told ----------------------------------------------------------------

    def work(self, effect: SendWork, now: float) -> list[Send]:
        """Give a worker a job."""
        body = convert_call(self._codecs, effect.body, NAME)
        self._held.setdefault(effect.worker, {})[effect.job] = effect.attempt
        left = None if effect.run_until is None else max(0.0, round(effect.run_until - now, 3))
        said = wire.Work(effect.job, effect.attempt, effect.service, name_of(effect.client), left)
        said.resources = resources_of(effect.target)
        return [to(effect.worker, said, body.parts)]

    def give_input(self, effect: SendInput, now: float) -> list[Send]:
        """Give a worker what its client says."""
        body = convert_answer(self._codecs, effect.body, NAME)
        return [to(effect.worker, wire.Given(effect.job), body.parts)]

    def stop(self, effect: SendCancel, now: float) -> list[Send]:
        """Tell a worker to stop a job."""
        return [to(effect.worker, wire.Stop(effect.job, effect.attempt))]

    def poll(self, effect: SendPoll, now: float) -> list[Send]:
        """Remember what a worker that came back still holds; it will report by itself."""
        self._held.setdefault(effect.worker, {})[effect.job] = effect.attempt
        return []

    def dismiss(self, peer: PeerId, reason: str) -> list[Send]:
        """End a worker's session."""
        self._held.pop(peer, None)
        return [to(peer, wire.Dismissed(reason))]

    def validate(self) -> None:
        """Assert that every memory is within its bound."""
        assert len(self._ended) <= self._settings.remembered


def to(peer: PeerId, message: wire.Message, parts: Frames = ()) -> Send:
    """Address a message."""
    return Send(raw_of(name_of(peer)), wire.encode(message, parts))


def heard(peer: PeerId, request: str, verdict: str = "") -> Send:
    """Acknowledge a request, once everything it caused is durable."""
    frames = wire.encode(wire.Heard(request, verdict))
    return Send(raw_of(name_of(peer)), frames, is_strict=True)
