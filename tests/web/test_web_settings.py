"""The settings of the door agree with each other and with the broker's own."""

from dataclasses import fields

import pytest

from dragoman.dialects.http.settings import HttpSettings as SideSettings
from dragoman.server.settings import HttpSection
from dragoman.web.settings import WebSettings


def test_every_setting_can_be_set_and_has_one_default() -> None:
    section = HttpSection().model_dump()
    for kind in (WebSettings, SideSettings):
        found = kind()
        names = [field.name for field in fields(found)]
        known = [name for name in names if name in section]
        assert [section[name] for name in known] == [getattr(found, name) for name in known]
    assert {f.name for f in fields(WebSettings())} <= set(section)


@pytest.mark.process
def test_our_own_workers_never_wait_longer_than_the_door_lets_them() -> None:
    from dragoman.dialects.http.worker_side import WAIT

    assert WebSettings().long_poll > WAIT
