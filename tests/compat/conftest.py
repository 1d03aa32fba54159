"""A broker for programs that were written for another task queue."""

from collections.abc import Iterator

import pytest

from dragoman.testing.harness import LocalBroker


@pytest.fixture(scope="session")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker("nfp", "http") as broker:
        yield broker
