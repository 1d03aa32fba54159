"""Every event and effect has a one-line summary."""

from typing import get_args

import pytest

from dragoman.core.effects import Append, Effect, SendWork
from dragoman.core.events import Event, JobSubmitted, TimeAdvanced, WorkerJoined
from dragoman.model.body import Body
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.model.record import Kind, Record
from dragoman.testing.summary import _GETTERS, summary


def test_every_event_and_effect_has_a_summary() -> None:
    assert set(_GETTERS) | {Append} == {*get_args(Event), *get_args(Effect)}


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (TimeAdvanced(), "TimeAdvanced"),
        (
            JobSubmitted(JobId("j1"), PeerId("l/c"), ServiceName("a"), Body("l")),
            "JobSubmitted l/c j1 a any 0",
        ),
        (
            WorkerJoined(PeerId("l/w"), WorkerName("w"), (), holds=frozenset({JobId("j")})),
            "WorkerJoined l/w w () {j}",
        ),
        (
            Append(Record(7, 1.0, Kind.DISPATCHED, "j1", attempt=2, worker="w", state="running")),
            "#7 dispatched j1/0 attempt 2 w running",
        ),
        (
            SendWork(PeerId("l/w"), JobId("j"), 1, ServiceName("a"), PeerId("l/c"), Body("l")),
            "SendWork l/w j 1 a 0",
        ),
        ("anything else", "'anything else'"),
    ],
)
def test_a_summary_says_what_matters(thing: object, words: str) -> None:
    assert summary(thing).rstrip() == words
