"""Every dialect can be made, and its ends meet on its links."""

from itertools import count

import pytest

from dragoman.testing.tongues import TONGUES, make_wardrobe


@pytest.mark.parametrize("name", list(TONGUES))
def test_a_tongue_makes_all_its_ends(name: str) -> None:
    tongue, numbers = TONGUES[name], count()
    sides = tongue.broker(make_wardrobe(), lambda: f"id-{next(numbers)}")
    assert {side.link for side in sides} == {tongue.client_link, tongue.worker_link}
    worker = tongue.worker("w1", "alpha", lambda: f"id-{next(numbers)}", lambda: 1.0)
    assert worker.join()
    if tongue.client is not None:
        assert isinstance(tongue.client(lambda: "id").hello(), list)


def test_the_wardrobe_has_a_dress_for_every_dialect() -> None:
    assert {"nfp", "dcp", "zss", "memo", "ncl"} <= set(make_wardrobe())
