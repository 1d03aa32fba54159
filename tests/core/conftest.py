"""Every core test ends with a check of all invariants and a replay of its records."""

from collections.abc import Iterator

import pytest
from tests.core.builders import Stage
from tests.core.snapshot_checks import assert_needed_records_suffice, assert_snapshots_suffice

from dragoman.core.recovery import fold


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.broker.validate()
    live = stage.broker.state.store
    replayed = fold(stage.records)
    assert {j: replayed.as_recorded()[j] for j in live.jobs} == live.as_recorded()
    assert replayed.sessions == live.sessions
    assert_snapshots_suffice(stage.records)
    assert_needed_records_suffice(stage.records)
