"""The mesh of a broker from its settings, and what it tells people."""

from pathlib import Path
from typing import Any

import pytest

from dragoman.core.broker import Broker
from dragoman.server.mesh import NAME_FILE, Mesh, broker_name, dial_endpoint
from dragoman.server.mesh_transport import MeshDealer
from dragoman.server.settings_sources import load
from dragoman.server.wiring import OPEN


def mesh(folder: Path, **settings: Any) -> Mesh:
    return Mesh(load(data=folder, **settings), OPEN, Broker().state)


def test_without_settings_there_is_no_link(tmp_path: Path) -> None:
    found = mesh(tmp_path)
    assert found.links == []
    assert found.rows() == {"broker": "", "neighbours": []}
    assert not (tmp_path / NAME_FILE).exists()


def test_a_name_is_made_once_and_kept(tmp_path: Path) -> None:
    name = broker_name(load(data=tmp_path))
    assert broker_name(load(data=tmp_path)) == name
    assert broker_name(load(data=tmp_path, name="west")) == "west"


def test_a_name_that_cannot_be_part_of_an_address_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a broker name"):
        broker_name(load(data=tmp_path, name="a/b"))


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("mesh://east.example:5570", "tcp://east.example:5570"),
        ("tcp://127.0.0.1:1", "tcp://127.0.0.1:1"),
        ("mesh://[::1]:5570", "tcp://[::1]:5570"),
        ("ipc:///run/mesh", "ipc:///run/mesh"),
    ],
)
def test_a_url_means_an_endpoint(url: str, endpoint: str) -> None:
    assert dial_endpoint("east", url) == endpoint


@pytest.mark.parametrize("url", ["east", "mesh://east", "http://east:80", "mesh://east:port"])
def test_another_url_is_refused_with_its_setting(url: str) -> None:
    with pytest.raises(ValueError, match=r"mesh\.east\.url"):
        dial_endpoint("east", url)


def test_a_broker_that_does_not_answer_is_shown(tmp_path: Path) -> None:
    found = mesh(tmp_path, name="west", mesh={"east": {"url": "mesh://127.0.0.1:1"}})
    rows = found.rows()
    assert rows["broker"] == "west"
    (row,) = rows["neighbours"]
    assert (row["state"], row["url"]) == ("connecting", "tcp://127.0.0.1:1")


def test_a_connection_without_an_answer_names_the_likely_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers of one name ignore each other, and a broker that connects to itself is one."""
    found = mesh(tmp_path, name="west", mesh={"self": {"url": "mesh://127.0.0.1:5570"}})
    assert "does a broker listen there" in found.rows()["neighbours"][0]["detail"]
    monkeypatch.setattr(MeshDealer, "is_connected", True)
    assert "must have another name than west" in found.rows()["neighbours"][0]["detail"]


def test_terms_apply_to_an_address_or_to_a_name(tmp_path: Path) -> None:
    sections = {
        "east": {"url": "mesh://127.0.0.1:1", "credit": 7},
        "north": {"exports": ["math"], "imports": []},
    }
    config = mesh(tmp_path, name="west", mesh=sections).side.config
    assert [terms.credit for terms in config.dials.values()] == [7]
    assert config.by_name["north"].exports == ("math",)
    assert not config.by_name["north"].takes("math")


def test_a_key_of_the_other_broker_needs_a_key_of_this_one(tmp_path: Path) -> None:
    section = {"url": "mesh://127.0.0.1:1", "server_key": "x" * 40}
    with pytest.raises(ValueError, match=r"set credentials\.curve"):
        mesh(tmp_path, mesh={"east": section})


def test_a_lease_that_is_too_short_to_notice_silence_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="lease"):
        mesh(tmp_path, mesh={"east": {"url": "mesh://127.0.0.1:1", "lease": 1.0}})


def test_the_nodes_of_a_cluster_have_its_name(tmp_path: Path) -> None:
    assert broker_name(load(data=tmp_path, cluster={"name": "main", "node": "a"})) == "main"
