import types

import pytest

from dragoman.compat.celery import Celery
from dragoman.compat.celery.config import Config
from dragoman.compat.hints import NotInCompat


def test_settings_are_attributes_and_keys() -> None:
    conf = Config()
    conf.timezone = "Europe/Berlin"
    conf.update(enable_utc=True, task_default_queue="jobs")
    assert (conf["timezone"], conf.task_default_queue) == ("Europe/Berlin", "jobs")
    assert "timezone" in conf
    with pytest.raises(AttributeError):
        _ = conf.nothing


def test_what_has_no_meaning_raises_with_a_hint() -> None:
    conf = Config()
    with pytest.raises(NotInCompat, match=r"'task_annotations'.*rate = 10"):
        conf.task_annotations = {}
    with pytest.raises(NotInCompat, match="'speed'"):
        conf["speed"] = 3
    with pytest.raises(NotInCompat, match="'pickle'"):
        conf.task_serializer = "pickle"


def test_a_module_or_a_class_has_settings() -> None:
    app = Celery("x")
    module = types.ModuleType("celeryconfig")
    module.timezone, module.other = "Asia/Tokyo", 1  # type: ignore[attr-defined]
    app.config_from_object(module)
    assert app.conf.timezone == "Asia/Tokyo"

    class Django:
        CELERY_TIMEZONE = "UTC"
        CELERY_TASK_ALWAYS_EAGER = True
        OTHER = 1

    app.config_from_object(Django, namespace="CELERY")
    assert (app.conf.timezone, app.conf.task_always_eager) == ("UTC", True)
