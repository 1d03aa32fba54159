"""Inventory objects by name pattern."""

from dragoman.server.inventory import inventory_for, merge


def test_patterns_apply_in_order_and_merge_deeply() -> None:
    inventory = {
        "nornir-*": {"service": "nornir", "hosts": {"a": {"ip": "1"}}, "tags": ["x"]},
        "nornir-1": {"hosts": {"a": {"port": 22}, "b": {}}, "tags": ["x", "y"]},
    }
    assert inventory_for(inventory, "nornir-1") == {
        "service": "nornir",
        "hosts": {"a": {"ip": "1", "port": 22}, "b": {}},
        "tags": ["x", "y"],
    }
    assert inventory_for(inventory, "nornir-2") == inventory["nornir-*"]


def test_a_name_without_a_pattern_has_no_inventory() -> None:
    assert inventory_for({"a*": {}}, "b") is None
    assert inventory_for({"a*": {}}, "A1") is None


def test_scalars_of_the_later_object_win() -> None:
    assert merge({"a": 1, "b": {"c": 1}}, {"a": 2, "b": 3}) == {"a": 2, "b": 3}
