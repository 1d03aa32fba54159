"""A setting is a field with a default, a meaning and limits."""

from collections.abc import Mapping

from dragoman.model.setting import declared_settings, setting
from dragoman.model.value import value


@value
class Sample:
    hidden: int = 1
    beat_every: float = setting(default=2.5, gt=0, help="Seconds between two beats.")
    names: Mapping[str, str] = setting(default_factory=dict, help="Names by id.")


def test_a_setting_has_its_default_and_can_be_given_by_position() -> None:
    assert Sample() == Sample(1, 2.5, {})
    assert Sample().names is not Sample().names


def test_only_declared_fields_can_be_set_by_an_operator() -> None:
    found = declared_settings(Sample)
    assert list(found) == ["beat_every", "names"]
    assert found["beat_every"].metadata == {"description": "Seconds between two beats.", "gt": 0}
