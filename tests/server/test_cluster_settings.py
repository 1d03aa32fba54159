"""The settings of a node."""

import socket
from pathlib import Path

import pytest
from pydantic import ValidationError

from dragoman.server.cluster_settings import ClusterSection


def section(**given: object) -> ClusterSection:
    return ClusterSection.model_validate({"name": "c", "node": "a", **given})


def test_without_a_name_there_is_no_cluster() -> None:
    assert ClusterSection().name == ""
    assert ClusterSection().copies == 1


def test_other_nodes_are_a_list_or_a_text_with_commas() -> None:
    assert section(join="b:1,c:2").join == section(join=["b:1", "c:2"]).join == ("b:1", "c:2")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"node": ""}, "--node"),
        ({"name": "a b"}, "no name"),
        ({"join": "b"}, "HOST:PORT"),
        ({"listen": "6222"}, "HOST:PORT"),
    ],
)
def test_a_wrong_setting_says_what_to_do(wrong: dict[str, str], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        section(**wrong)


def test_the_secret_is_in_a_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="dragoman cluster token"):
        section().read_token(tmp_path)
    (tmp_path / "cluster.token").write_text("0123456789abcdef\n")
    assert section().read_token(tmp_path) == "0123456789abcdef"
    own = tmp_path / "own"
    own.write_text("short")
    with pytest.raises(ValueError, match="8 to 512") as caught:
        section(token=own).read_token(tmp_path)
    assert "short" not in str(caught.value)


def test_each_node_keeps_a_copy_unless_there_are_too_many() -> None:
    assert section(join="b:1,c:2").copies == 3
    assert section(join=",".join(f"n{n}:1" for n in range(8))).copies == 5
    assert section(join="b:1,c:2", replicas=1).copies == 1
    assert section(nats="nats://u:p@h:4222").copies == 3


@pytest.mark.parametrize(
    ("given", "host"),
    [
        ({"listen": "10.0.0.1:6222"}, "10.0.0.1"),
        ({"listen": "0.0.0.0:6222"}, socket.gethostname()),
        ({"listen": "0.0.0.0:6222", "host": "a.example"}, "a.example"),
    ],
)
def test_the_others_reach_a_node_where_it_listens(given: dict[str, str], host: str) -> None:
    assert section(**given).own_host == host


def test_the_hosts_of_all_nodes_are_known() -> None:
    assert section(listen="10.0.0.1:1", join="b:1,[::1]:2").hosts == ("10.0.0.1", "b", "::1")
    assert ClusterSection().hosts == ()


def test_the_loopback_is_no_network() -> None:
    assert not section(listen="127.0.0.2:1", join="127.0.0.3:1,localhost:2").leaves_machine
    assert section(listen="127.0.0.2:1", join="b:1").leaves_machine
