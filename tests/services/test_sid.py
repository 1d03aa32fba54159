"""The inventory service: secrets go to the worker they are for, changes are told."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from dragoman.model.content import Call
from dragoman.services.base import ServiceFault, ServiceSession
from dragoman.services.inventory import Inventory, InventoryChange
from dragoman.services.sid import InventoryService, is_worker, reveal_or_say


class House:
    """A service with its surroundings."""

    def __init__(self, data: Path, path: Path | None = None, said: Any = None) -> None:
        self.told: list[tuple[InventoryChange, list[str]]] = []
        self.files_read = 0
        self.service = InventoryService(
            Inventory(data, path, said),
            lambda: 7.0,
            lambda: ["w1", "w2", "x"],
            lambda change, workers: self.told.append((change, workers)),
            self._files,
        )

    def _files(self) -> None:
        self.files_read += 1

    def ask(self, task: str, by: str = "nfp/c", job: str = "j", **kwargs: Any) -> Any:
        async def play() -> Any:
            session = ServiceSession(job, by, lambda kind, said: None)
            result = self.service.desk(Call(task, (), kwargs), session)
            return await result if isinstance(result, Awaitable) else result

        return asyncio.run(play())


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    monkeypatch.setenv("W_SECRET", "opened")
    said: dict[str, Any] = {"a": 1, "password": "bare", "ref": "secret:env:W_SECRET"}
    return House(tmp_path, None, {"w*": said})


MASKED = {"a": 1, "password": "***", "ref": "***"}


def test_others_get_a_workers_inventory_without_its_secrets(house: House) -> None:
    assert house.ask("get_inventory", name="w1") == MASKED
    assert reveal_or_say(house.service, "j") == (False, None, "")
    assert house.ask("get", name="w1") == MASKED
    assert house.ask("get", name="w1", path="password") == "***"
    assert house.ask("get_inventory", name="stranger") is None


@pytest.mark.parametrize("by", ["nfp/w1", "nfp/w1-NFPClient", "zss/w1"])
def test_the_worker_itself_is_answered_in_full_on_the_way_out_once(house: House, by: str) -> None:
    assert house.ask("get_inventory", by, "j9", name="w1") == MASKED
    full = {"a": 1, "password": "bare", "ref": "opened"}
    assert reveal_or_say(house.service, "j9") == (True, full, "")
    assert reveal_or_say(house.service, "j9") == (False, None, "")


def test_a_secret_that_is_missing_is_said_by_its_reference(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.ask("get_inventory", "nfp/w1", name="w1")
    monkeypatch.delenv("W_SECRET")
    is_secret, found, trouble = reveal_or_say(house.service, "j")
    assert (is_secret, found) == (True, None)
    assert "secret:env:W_SECRET" in trouble


def test_who_is_a_worker() -> None:
    assert is_worker("nfp/w1", "w1")
    assert not is_worker("nfp/w10", "w1")
    assert not is_worker("nfp/x-NFPClient", "w1")


def test_changes_are_told_to_the_workers_concerned(house: House) -> None:
    said = house.ask("set", pattern="w*", path="b", value=2)
    assert said == {"version": 1, "undoes": 0, "workers": ["w1", "w2"]}
    assert house.ask("get", name="w1", path="b") == 2
    assert house.ask("delete", pattern="x", path="b")["workers"] == ["x"]
    assert house.ask("undo", version=1) == {"version": 3, "undoes": 1, "workers": ["w1", "w2"]}
    assert [workers for _, workers in house.told] == [["w1", "w2"], ["x"], ["w1", "w2"]]
    assert house.told[0][0].at == 7.0
    assert [c["version"] for c in house.ask("history", limit=2)] == [3, 2]


def test_a_refused_change_is_told_to_nobody_but_its_author(house: House) -> None:
    with pytest.raises(ServiceFault, match="at version 0, not 5"):
        house.ask("set", pattern="w*", path="b", value=2, version=5)
    with pytest.raises(ServiceFault, match="secret:env:NAME"):
        house.ask("change", operations=[{"op": "set", "pattern": "*", "path": "token",
                                         "value": "x"}])  # fmt: skip
    assert house.told == []


def test_what_is_not_there_is_said(house: House) -> None:
    with pytest.raises(ServiceFault, match=r"w1: nothing stands at a\.b"):
        house.ask("get", name="w1", path="a.b")


def test_files_are_followed_and_broken_ones_leave_the_last_good_ones(tmp_path: Path) -> None:
    file = tmp_path / "i" / "inventory.yaml"
    file.parent.mkdir()
    file.write_text("workers: {w1: {a: 1}}\nbroker: {shared_key: k, name: b}\n")
    house = House(tmp_path, file.parent)
    assert house.service.broker() == {"broker": {"shared_key": "***", "name": "b"}}
    file.write_text("workers: {w1: {a: 22}}\n")
    assert house.ask("get_inventory", name="w1") == {"a": 22}
    file.write_text("workers: {w1: {a: [\n\n")
    assert house.ask("get_inventory", name="w1") == {"a": 22}
    assert "line 3" in house.ask("show")["trouble"]
    with pytest.raises(ServiceFault, match=r"line 3.*last good inventory stays"):
        house.ask("reload")
    file.write_text("workers: {w1: {a: 3}}\n")
    assert house.ask("reload") == {"version": 0, "patterns": ["w1"], "trouble": ""}
    assert house.files_read == 2
