"""Every simulated dialect makes its sides, and they share links."""

from itertools import count

import pytest

from dragoman.dialects.registry import body_codecs
from dragoman.testing.sim_dialects import SIM_DIALECTS


@pytest.mark.parametrize("name", list(SIM_DIALECTS))
def test_a_simulated_dialect_makes_all_its_sides(name: str) -> None:
    dialect, numbers = SIM_DIALECTS[name], count()
    sides = dialect.broker(body_codecs(), lambda: f"id-{next(numbers)}")
    assert {side.link for side in sides} == {dialect.client_link, dialect.worker_link}
    worker = dialect.worker("w1", "alpha", lambda: f"id-{next(numbers)}", lambda: 1.0)
    assert worker.join()
    if dialect.has_clients:
        assert isinstance(dialect.client(lambda: "id").hello(), list)


def test_there_is_a_body_codec_for_every_dialect() -> None:
    assert {"nfp", "dcp", "zss", "memo", "ncl"} <= set(body_codecs())
