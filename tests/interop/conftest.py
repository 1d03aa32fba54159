"""Fixtures of the tests with real processes. What they give is in `harness`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
from tests.interop.harness import Broker, Fleet

_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if report.failed:
        item.stash[_FAILED] = True
    return report  # type: ignore[return-value]


@pytest.fixture
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """Processes that end with the test; a failed one shows their logs."""
    fleet = Fleet(tmp_path)
    yield fleet
    fleet.end()
    if request.node.stash.get(_FAILED, False):
        print(fleet.logs())


class StartBroker(Protocol):
    """Starts a broker: `broker(links={"dcp": "127.0.0.1:0"}, settings="[nfp]\\npatience = 0")`.

    Without `links` it listens for NFP only. Links that are not named are off. Port 0 is a free port
    that stays the same over restarts.
    """

    def __call__(self, links: dict[str, str] | None = None, settings: str = "") -> Broker: ...


@pytest.fixture
def broker(fleet: Fleet) -> StartBroker:
    """A way to start brokers."""
    return fleet.broker
