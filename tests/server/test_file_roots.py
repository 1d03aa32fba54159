"""Shared roots never contain the broker's own files."""

from pathlib import Path
from typing import Any

import pytest

from dragoman.server.file_roots import check_roots
from dragoman.server.settings import BrokerSettings, FilesSection


@pytest.mark.parametrize(
    ("more", "label"),
    [
        ({}, "the data folder"),
        (
            {"data": "elsewhere", "secrets": {"folders": ["top/secrets"]}},
            "secrets of the inventory",
        ),
        ({"data": "elsewhere", "credentials": {"curve": ["top/broker.key"]}}, "a secret key"),
        ({"data": "elsewhere", "inventory_path": "top/inventory"}, "the inventory"),
        ({"data": "elsewhere", "security": {"registry": "top/registry.json"}}, "the registry"),
    ],
)
def test_a_root_above_a_file_of_the_broker_is_refused(more: dict[str, Any], label: str) -> None:
    settings = BrokerSettings(**{"data": "top/data", "files": {"roots": {"all": "top"}}, **more})
    with pytest.raises(ValueError, match=label):
        check_roots(settings)


def test_a_root_through_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    settings = BrokerSettings(
        data=tmp_path / "real" / "data", files=FilesSection(roots={"": tmp_path / "link"})
    )
    with pytest.raises(ValueError, match="the data folder"):
        check_roots(settings)


def test_a_root_beside_the_data_folder_is_allowed(tmp_path: Path) -> None:
    roots = FilesSection(roots={"": tmp_path / "shared"})
    check_roots(BrokerSettings(data=tmp_path / "data", files=roots))
