"""The inventory service: secrets go to the worker they are for, changes are changes."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.content import Call
from dragoman.services.base import ServiceFault, ServiceSession
from dragoman.services.inventory import Inventory, InventoryChange
from dragoman.services.secret_references import SecretSources
from dragoman.services.sid import InventoryService, is_worker, reveal_or_error


class InventorySetup:
    """A service with its surroundings."""

    def __init__(self, data: Path, path: Path | None = None, said: Any = None) -> None:
        self.changes: list[tuple[InventoryChange, list[str]]] = []
        self.files_read = 0
        self.service = InventoryService(
            Inventory(data, path, said),
            lambda: 7.0,
            lambda: ["w1", "w2", "x"],
            lambda change, workers: self.changes.append((change, workers)),
            self._files,
            SecretSources(prefix="W_"),
        )

    def _files(self) -> None:
        self.files_read += 1

    def ask(self, task: str, by: str = "nfp/c", job: str = "j", **kwargs: Any) -> Any:
        async def play() -> Any:
            session = ServiceSession(job, by, lambda kind, said: None)
            result = self.service.tasks(Call(task, (), kwargs), session)
            return await result if isinstance(result, Awaitable) else result

        return asyncio.run(play())


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InventorySetup:
    monkeypatch.setenv("W_SECRET", "opened")
    said: dict[str, Any] = {"a": 1, "password": "bare", "ref": "secret:env:W_SECRET"}
    return InventorySetup(tmp_path, None, {"w*": said})


MASKED = {"a": 1, "password": "***", "ref": "***"}


def test_others_get_a_workers_inventory_without_its_secrets(setup: InventorySetup) -> None:
    assert setup.ask("get_inventory", name="w1") == MASKED
    assert reveal_or_error(setup.service, "j") == (False, None, "")
    assert setup.ask("get", name="w1") == MASKED
    assert setup.ask("get", name="w1", path="password") == "***"
    assert setup.ask("get_inventory", name="stranger") is None


@pytest.mark.parametrize("by", ["nfp/w1", "nfp/w1-NFPClient", "zss/w1"])
def test_the_worker_itself_gets_its_secrets_once(setup: InventorySetup, by: str) -> None:
    assert setup.ask("get_inventory", by, "j9", name="w1") == MASKED
    full = {"a": 1, "password": "bare", "ref": "opened"}
    assert reveal_or_error(setup.service, "j9") == (True, full, "")
    assert reveal_or_error(setup.service, "j9") == (False, None, "")


def test_a_missing_secret_is_named_by_its_reference(
    setup: InventorySetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup.ask("get_inventory", "nfp/w1", name="w1")
    monkeypatch.delenv("W_SECRET")
    is_secret, found, trouble = reveal_or_error(setup.service, "j")
    assert (is_secret, found) == (True, None)
    assert "secret:env:W_SECRET" in trouble


def test_who_is_a_worker() -> None:
    assert is_worker("nfp/w1", "w1")
    assert not is_worker("nfp/w10", "w1")
    assert not is_worker("nfp/x-NFPClient", "w1")


def test_changes_are_announced_to_the_workers_concerned(setup: InventorySetup) -> None:
    said = setup.ask("set", pattern="w*", path="b", value=2)
    assert said == {"version": 1, "undoes": 0, "workers": ["w1", "w2"]}
    assert setup.ask("get", name="w1", path="b") == 2
    assert setup.ask("delete", pattern="x", path="b")["workers"] == ["x"]
    assert setup.ask("undo", version=1) == {"version": 3, "undoes": 1, "workers": ["w1", "w2"]}
    assert [workers for _, workers in setup.changes] == [["w1", "w2"], ["x"], ["w1", "w2"]]
    assert setup.changes[0][0].at == 7.0
    assert [c["version"] for c in setup.ask("history", limit=2)] == [3, 2]


def test_a_refused_change_is_not_announced(setup: InventorySetup) -> None:
    with pytest.raises(ServiceFault, match="at version 0, not 5"):
        setup.ask("set", pattern="w*", path="b", value=2, version=5)
    with pytest.raises(ServiceFault, match="token: a secret cannot be set here"):
        setup.ask("change", operations=[{"op": "set", "pattern": "*", "path": "token",
                                         "value": "x"}])  # fmt: skip
    assert setup.changes == []


def test_a_missing_value_is_reported(setup: InventorySetup) -> None:
    with pytest.raises(ServiceFault, match=r"w1: there is no value at a\.b"):
        setup.ask("get", name="w1", path="a.b")


def test_files_are_followed_and_broken_ones_leave_the_last_good_ones(tmp_path: Path) -> None:
    file = tmp_path / "i" / "inventory.yaml"
    file.parent.mkdir()
    file.write_text("workers: {w1: {a: 1}}\nbroker: {shared_key: k, name: b}\n")
    setup = InventorySetup(tmp_path, file.parent)
    shown = setup.service.broker()
    assert shown["broker"] == {"shared_key": "***", "name": "b"}
    assert shown["workers"] == {"w1": [{"a": 1}]}
    assert set(shown) >= {"topology", "logging", "client", "hooks", "plugins"}, "NorFab's keys"
    file.write_text("workers: {w1: {a: 22}}\n")
    assert setup.ask("get_inventory", name="w1") == {"a": 22}
    file.write_text("workers: {w1: {a: [\n\n")
    assert setup.ask("get_inventory", name="w1") == {"a": 22}
    assert "line 3" in setup.ask("show")["trouble"]
    with pytest.raises(ServiceFault, match=r"line 3.*last good inventory stays"):
        setup.ask("reload")
    file.write_text("workers: {w1: {a: 3}}\n")
    assert setup.ask("reload") == {"version": 0, "patterns": ["w1"], "trouble": ""}
    assert setup.files_read == 2


def test_a_missing_file_fails_its_worker_and_nobody_else(tmp_path: Path) -> None:
    folder = tmp_path / "i"
    folder.mkdir()
    (folder / "inventory.yaml").write_text("workers: {w1: [w1.yaml], w2: {a: 2}}\n")
    setup = InventorySetup(tmp_path, folder)
    assert setup.ask("get_inventory", name="w2") == {"a": 2}
    with pytest.raises(ServiceFault, match=r"inventory of w1: .*w1\.yaml: No such file"):
        setup.ask("get_inventory", name="w1")
    (folder / "w1.yaml").write_text("a: 1\n")
    assert setup.ask("get_inventory", name="w1") == {"a": 1}
    # A file that was good stays in force when it breaks.
    (folder / "w1.yaml").unlink()
    assert setup.ask("get_inventory", name="w1") == {"a": 1}
    assert "w1.yaml" in setup.ask("show")["trouble"]
