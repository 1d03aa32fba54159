"""Simulated webhooks: every end is delivered, whatever fails, and the checks notice if not."""

import pytest

from dragoman.ledger.base import Entry
from dragoman.model.record import Kind, Record
from dragoman.testing.oracle import PromiseBroken
from dragoman.testing.sim_hooks import SimHooks
from dragoman.testing.simulation import Simulation

HOOKED = '{"webhook":"https://hooks.example.org/"}'


@pytest.fixture
def hooks() -> SimHooks:
    found = Simulation(1).hooks
    assert found is not None
    return found


def write(hooks: SimHooks, kind: Kind, detail: str = "") -> Record:
    ledger = hooks.server.ledger
    terms = HOOKED if kind in (Kind.SUBMITTED, Kind.ENDED) else ""
    record = Record(ledger.last_seq + 1, 1.0, kind, "j1", terms=terms, detail=detail)
    ledger._keep([Entry(record)])
    return record


def test_an_end_that_nobody_was_told_of_is_found(hooks: SimHooks) -> None:
    write(hooks, Kind.SUBMITTED)
    hooks.check_finished()
    write(hooks, Kind.ENDED)
    with pytest.raises(PromiseBroken, match="neither delivered nor given up"):
        hooks.check_finished()
    write(hooks, Kind.NOTIFIED, "host: delivered, attempt 1")
    with pytest.raises(PromiseBroken, match="was never delivered"):
        hooks.check_finished()
    write(hooks, Kind.NOTIFIED, "host: given up after 3 attempts")
    hooks.check_finished()


def test_what_is_no_end_or_not_on_disk_must_not_be_delivered(hooks: SimHooks) -> None:
    with pytest.raises(PromiseBroken, match="is told of submitted"):
        hooks._receive(write(hooks, Kind.SUBMITTED))
    hooks._receive(write(hooks, Kind.ENDED))
    assert list(hooks.got) == ["j1"]
    unwritten = Record(hooks.server.ledger.last_seq + 1, 1.0, Kind.ENDED, "j2", terms=HOOKED)
    with pytest.raises(PromiseBroken, match="is told of ended"):
        hooks._receive(unwritten)


@pytest.mark.sim
def test_a_world_delivers_the_ends_of_its_jobs() -> None:
    world = Simulation(2, every=20)
    assert not world.run().failure
    assert world.hooks is not None
    assert len(world.hooks.got) > 5
    assert world.hooks.is_over
