"""The settings of HTTP: those of the dialect, and the web application's own."""

import pytest

from dragoman.model.setting import declared_settings
from dragoman.web.settings import WebSettings


def test_the_web_application_has_the_settings_of_the_dialect_too() -> None:
    assert {"timeout", "beat_every", "max_body", "long_poll"} <= set(declared_settings(WebSettings))


@pytest.mark.process
def test_our_own_workers_never_wait_longer_than_the_broker_allows() -> None:
    from dragoman.dialects.http.worker_side import WAIT

    assert WebSettings().long_poll > WAIT
