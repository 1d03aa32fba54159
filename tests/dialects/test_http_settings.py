"""The settings of the HTTP link agree with each other."""

from dragoman.dialects.http.settings import HttpSettings


def test_a_worker_may_ask_for_more_silence_than_it_has_anyway() -> None:
    settings = HttpSettings()
    assert settings.beat_every * settings.missed_allowed < settings.longest_lease
