"""The inventory in force: files, changes as transactions, and undoing them."""

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.services.inventory import Inventory, InventoryRefused, find, read_path
from dragoman.services.inventory_files import BrokenInventory


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "inventory.yaml").write_text("workers: {'probe-*': {level: 2, deep: {a: 1, b: 2}}}\n")
    return Inventory(tmp_path, folder, {"*": {"level": 1, "all": True}})


def change(inventory: Inventory, *operations: Any, expected: int | None = None) -> int:
    return inventory.change(operations, "nfp/me", 5.0, expected).version


def setting(path: str, value: Any, pattern: str = "probe-*") -> dict[str, Any]:
    return {"op": "set", "pattern": pattern, "path": path, "value": value}


def test_settings_come_first_then_files_then_changes(inventory: Inventory) -> None:
    assert inventory.of("other") == {"level": 1, "all": True}
    assert inventory.of("probe-1") == {"level": 2, "all": True, "deep": {"a": 1, "b": 2}}
    change(inventory, setting("deep.a", 9), {"op": "delete", "pattern": "*", "path": "all"})
    assert inventory.of("probe-1") == {"level": 2, "deep": {"a": 9, "b": 2}}
    assert inventory.of("other") == {"level": 1}
    assert inventory.patterns() == ["*", "probe-*"]


def test_a_worker_without_entries_has_no_inventory(tmp_path: Path) -> None:
    assert Inventory(tmp_path).of("anybody") is None


def test_a_change_is_applied_all_or_none(inventory: Inventory) -> None:
    with pytest.raises(InventoryRefused, match="set or delete"):
        change(inventory, setting("level", 9), {"op": "fly", "pattern": "*"})
    assert inventory.of("probe-1")["level"] == 2  # type: ignore[index]
    assert inventory.version == 0


def test_changes_survive_a_restart(inventory: Inventory, tmp_path: Path) -> None:
    change(inventory, setting("x.y", {"deep": [1]}))
    again = Inventory(tmp_path)
    assert again.of("probe-1") == {"x": {"y": {"deep": [1]}}}
    assert again.version == 1
    assert again.history()[0]["by"] == "nfp/me"


def test_a_change_with_an_old_version_is_refused(inventory: Inventory) -> None:
    assert change(inventory, setting("level", 3), expected=0) == 1
    with pytest.raises(InventoryRefused, match="at version 1, not 0"):
        change(inventory, setting("level", 4), expected=0)


def test_any_change_can_be_undone_once(inventory: Inventory) -> None:
    change(inventory, setting("level", 3))
    change(inventory, setting("deep.a", 3))
    assert inventory.undo(1, "nfp/me", 6.0).undoes == 1
    assert inventory.of("probe-1") == {"level": 2, "all": True, "deep": {"a": 3, "b": 2}}
    assert inventory.undo(None, "nfp/me", 6.0).undoes == 2
    assert inventory.of("probe-1") == {"level": 2, "all": True, "deep": {"a": 1, "b": 2}}
    with pytest.raises(InventoryRefused, match="no change"):
        inventory.undo(None, "nfp/me", 6.0)
    assert [(c["version"], c["undoes"], c["undone"]) for c in inventory.history()] == [
        (4, 2, 0),
        (3, 1, 0),
        (2, 0, 4),
        (1, 0, 3),
    ]


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (7, "an object"),
        ({"op": "set", "pattern": "", "path": "a", "value": 1}, "pattern"),
        ({"op": "set", "pattern": "*", "path": "a"}, "needs a value"),
        ({"op": "set", "pattern": "*", "path": [1], "value": 1}, "a path is"),
        ({"op": "set", "pattern": "*", "path": "", "value": 1}, "is an object"),
        ({"op": "set", "pattern": "*", "path": "a", "value": {1, 2}}, "JSON"),
        ({"op": "set", "pattern": "*", "path": "a", "value": 1, "when": 2}, "has no when"),
        ({"op": "set", "pattern": "*", "path": "password", "value": "x"}, "a secret cannot be set"),
        ({"op": "set", "pattern": "*", "path": "h", "value": {"token": "x"}}, r"h\.token"),
    ],
)
def test_an_invalid_operation_is_refused_with_the_reason(
    inventory: Inventory, operation: Any, words: str
) -> None:
    with pytest.raises(InventoryRefused, match=words):
        change(inventory, operation)


def test_an_empty_change_is_refused(inventory: Inventory) -> None:
    with pytest.raises(InventoryRefused):
        change(inventory)


def test_a_value_set_at_run_time_is_data_and_never_a_reference(
    inventory: Inventory, tmp_path: Path
) -> None:
    change(inventory, setting("note", "secret:file:/etc/passwd"))
    for each in (inventory, Inventory(tmp_path)):
        assert each.of("probe-1")["note"] == "secret:file:/etc/passwd"  # type: ignore[index]
    with pytest.raises(InventoryRefused, match="password: a secret cannot be set here"):
        change(inventory, setting("password", "secret:env:DB"))


def test_declared_secrets_are_masked_and_cannot_be_set(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    text = "secrets: [radius.shared]\nworkers: {w: {radius: {shared: abc, port: 1}}}\n"
    (folder / "inventory.yaml").write_text(text)
    inventory = Inventory(tmp_path, folder, {"w": {"plan": "b"}}, ["plan"])
    masked = inventory.masks.masked(inventory.of("w"))
    assert masked == {"plan": "***", "radius": {"shared": "***", "port": 1}}
    with pytest.raises(InventoryRefused, match=r"radius\.shared: a secret"):
        change(inventory, setting("radius", {"shared": "x"}))
    change(inventory, setting("radius.port", 2))
    assert inventory.history()[0]["operations"][0]["value"] == 2


def test_too_large_a_change_is_refused_before_it_takes_effect(inventory: Inventory) -> None:
    with pytest.raises(InventoryRefused, match="belong into the files"):
        change(inventory, setting("big", "x" * 2_000_000))
    assert inventory.version == 0


def test_changed_files_are_followed_and_broken_ones_are_not(
    inventory: Inventory, tmp_path: Path
) -> None:
    file = tmp_path / "files" / "inventory.yaml"
    assert not inventory.refresh()
    file.write_text("workers: {'probe-*': {level: 33}}\n")
    assert inventory.refresh()
    assert inventory.of("probe-1")["level"] == 33  # type: ignore[index]
    file.write_text("workers: {'probe-*': {level: [}}\n# longer\n")
    with pytest.raises(BrokenInventory, match=r"inventory\.yaml, line 1"):
        inventory.refresh()
    assert inventory.of("probe-1")["level"] == 33  # type: ignore[index]
    assert "line 1" in inventory.trouble
    file.write_text("workers: {'probe-*': {level: 4}}\n")
    assert inventory.refresh()
    assert inventory.trouble == ""


def test_a_damaged_file_of_changes_is_named(tmp_path: Path) -> None:
    for text in ("{", json.dumps([{"version": 1}])):
        (tmp_path / "inventory.json").write_text(text)
        with pytest.raises(BrokenInventory, match=r"inventory\.json"):
            Inventory(tmp_path)


def test_paths_are_text_or_lists_and_lead_somewhere() -> None:
    assert read_path("a.b") == read_path(["a", "b"]) == ("a", "b")
    assert find({"a": {"b": 1}}, ("a", "b")) == 1
    with pytest.raises(InventoryRefused, match=r"a\.x"):
        find({"a": {"b": 1}}, ("a", "x"))


def test_deleting_what_is_not_there_changes_nothing(inventory: Inventory) -> None:
    before = inventory.of("probe-1")
    change(inventory, {"op": "delete", "pattern": "probe-*", "path": "no.such.thing"})
    assert inventory.of("probe-1") == before
    change(inventory, {"op": "delete", "pattern": "probe-*", "path": ""})
    assert inventory.of("probe-1") == {}
