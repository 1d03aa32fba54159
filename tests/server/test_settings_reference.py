"""Every setting is in the reference, with its meaning."""

from dragoman.server.settings import BrokerSettings
from dragoman.server.settings_reference import all_settings, section_help


def test_every_setting_has_a_meaning_and_a_type() -> None:
    assert [info.name for info in all_settings() if not info.help or not info.kind] == []


def test_every_member_of_the_tree_is_in_the_reference() -> None:
    assert {info.path[0] for info in all_settings()} == set(BrokerSettings.model_fields)
    assert set(section_help()) < set(BrokerSettings.model_fields)


def test_a_setting_knows_its_type_limits_default_and_variable() -> None:
    found = {info.name: info for info in all_settings()}
    patience = found["nfp.patience"]
    assert (patience.kind, patience.default) == ("number >= 0", None)
    assert patience.variable == "DRAGOMAN_NFP__PATIENCE"
    assert found["credentials.curve"].kind == "list of paths"
    assert found["services.*.balance"].fits(("services", "math", "balance"))
    assert "nfp.max_name" not in found
