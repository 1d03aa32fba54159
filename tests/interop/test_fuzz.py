"""Every dialect under fire: a live broker, real sockets, a hundred thousand messages each.

A failure names its seed: `python -m dragoman.testing.fuzz --links LINK --seed SEED --vectors
tests/vectors` makes the same messages again. DRAGOMAN_FUZZ_SEED and DRAGOMAN_FUZZ_MESSAGES change
what is run here.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop.harness import ROOT

from dragoman.testing.fabric import Fabric
from dragoman.testing.fuzz.attack import ATTACK_TARGETS, SETTINGS, attack, start_peers

pytestmark = [pytest.mark.scale, pytest.mark.timeout(900)]

MESSAGES = int(os.environ.get("DRAGOMAN_FUZZ_MESSAGES", "100000"))
SEED = int(os.environ.get("DRAGOMAN_FUZZ_SEED", "2026"))


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    fabric = Fabric(tmp_path_factory.mktemp("fuzz"), SETTINGS)
    try:
        start_peers(fabric, list(ATTACK_TARGETS))
        yield fabric
    finally:
        fabric.stop()


@pytest.mark.parametrize("link", ATTACK_TARGETS)
def test_nothing_that_is_said_harms_the_broker_or_anybody_else(
    fabric: Fabric, link: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = attack(fabric, link, SEED, MESSAGES, ROOT / "tests" / "vectors")
    with capsys.disabled():
        print(f"\n{outcome}")
    assert not outcome.problems, f"{outcome}\n{_end_of(fabric.log('broker'))}"
    assert outcome.sent >= MESSAGES
    assert "internal error" not in fabric.log("broker").read_text(errors="replace")


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-4000:]
