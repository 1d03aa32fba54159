"""Planted bugs of brokers that work for each other: jobs run twice, go in circles, never stop."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from dragoman.core import dispatch, retries
from dragoman.core.effects import SendCancel, SendPoll
from dragoman.core.jobs import JobPart
from dragoman.core.registry import RegisteredWorker
from dragoman.dialects.base import Frames
from dragoman.dialects.mesh import broker_side, sessions, wire
from dragoman.dialects.mesh.neighbour import Neighbour
from dragoman.model.retry import NO_RETRY, Retry
from dragoman.model.terms import Terms
from dragoman.server.engine import BrokerEngine
from dragoman.testing.bugs.planting import Bugs, replaced

BUGS: Final = Bugs()


def _nothing(*_: object) -> list[object]:
    """Do nothing."""
    return []


@BUGS.add
def broken_link_ends_its_jobs() -> Iterator[None]:
    """The jobs of a broker do not wait for a broken link: they run elsewhere as well."""

    def end(neighbour: Neighbour, reason: str) -> list[object]:
        left: list[Any] = old(neighbour, reason)
        return [replace(event, grace=0.0) for event in left]

    old = Neighbour.end
    with replaced(Neighbour, "end", end):
        yield


@BUGS.add
def jobs_go_in_circles() -> Iterator[None]:
    """A broker gives a job back to one that the job has passed."""

    def work(
        side: broker_side.MeshBrokerSide, source: Neighbour, got: wire.MeshEnvelope, now: float
    ) -> object:
        message, path = got.message, got.message.terms.path
        others = [name for name in path if name != side.me]
        terms = type(message.terms)(**{**_fields(message.terms), "path": others})
        message = wire.Work(message.job, message.service, message.task, terms)
        return old(side, source, wire.MeshEnvelope(got.sender, got.session, message, got.body), now)

    old = broker_side.MeshBrokerSide._work
    with (
        replaced(RegisteredWorker, "leads_away_from", lambda worker, path: True),
        replaced(broker_side._RECEIVERS, wire.Work, work),  # type: ignore[arg-type]
    ):
        yield


def _fields(struct: Any) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


@BUGS.add
def cancels_stay_here() -> Iterator[None]:
    """A cancel is not passed on to the broker that has the job."""
    with replaced(broker_side._RENDERERS, SendCancel, _nothing):  # type: ignore[arg-type]
        yield


@BUGS.add
def ended_jobs_not_stopped_after_a_cut() -> Iterator[None]:
    """A job that was cancelled while the link was broken goes on at the other broker."""
    with replaced(broker_side._RECEIVERS, wire.Holds, _nothing):  # type: ignore[arg-type]
        yield


@BUGS.add
def deadlines_start_anew() -> Iterator[None]:
    """The next broker gives a job its whole time again."""

    def write(terms: Terms, timeout: float | None, path: tuple[str, ...]) -> wire.WorkTerms:
        return old(terms, terms.timeout, path)

    old = wire.write_terms
    with (
        replaced(wire, "write_terms", write),
        replaced(dispatch, "_terms_left", lambda state, part: part.job.terms),
    ):
        yield


@BUGS.add
def results_not_asked_for() -> Iterator[None]:
    """A result that was lost with a link is never asked for."""
    with (
        replaced(broker_side._RENDERERS, SendPoll, _nothing),  # type: ignore[arg-type]
        replaced(sessions.MeshSessions, "_polls", _nothing),
    ):
        yield


@BUGS.add
def old_sessions_believed() -> Iterator[None]:
    """Work that lay in a broken connection is run, though its job went elsewhere meanwhile."""

    def receive(side: sessions.MeshSessions, address: bytes, frames: Frames, now: float) -> object:
        if frames and frames[1].decode() in side.neighbours:
            found = side.neighbours[frames[1].decode()]
            message = wire.decode(frames).message
            if isinstance(message, wire.Work) and found.session:
                frames = [*frames[:2], found.session.encode(), *frames[3:]]
        return old(side, address, frames, now)

    old = sessions.MeshSessions.receive
    with replaced(sessions.MeshSessions, "receive", receive):
        yield


@BUGS.add
def failures_tried_again_by_both() -> Iterator[None]:
    """A broker repeats a job that the next one has tried as often as it may."""

    def policy(part: JobPart, worker: RegisteredWorker | None) -> Retry:
        return part.job.terms.retry or NO_RETRY

    with replaced(retries, "policy_of", policy):
        yield


@BUGS.add
def polls_overtake_work() -> Iterator[None]:
    """A poll leaves before the work that it asks about: the job goes elsewhere, and runs twice.

    Both the engine and the side of a neighbour prevent that.
    """
    with (
        replaced(Neighbour, "was_sent", lambda neighbour, job, attempt: True),
        replaced(BrokerEngine, "_is_early", lambda engine, effect: False),
    ):
        yield
