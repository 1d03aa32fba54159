"""The settings of the HTTP link agree with each other."""

import pytest

from dragoman.dialects.http.settings import HttpSettings


def test_a_worker_may_ask_for_more_silence_than_it_has_anyway() -> None:
    settings = HttpSettings()
    assert settings.beat_every * settings.missed_allowed < settings.longest_lease


@pytest.mark.process
def test_sdk_workers_never_wait_longer_than_the_broker_allows() -> None:
    from dragoman.dialects.http.worker_side import WAIT

    assert HttpSettings().long_poll > WAIT
