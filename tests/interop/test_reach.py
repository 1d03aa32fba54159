"""From another network namespace, as from another machine: what is plain cannot be reached."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop.secured import House

from dragoman.testing.harness import LINKS, LocalBroker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

#: Addresses for documentation: nobody's network.
HERE, THERE = "198.51.100.1", "198.51.100.2"
TRY = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 2).close()"


def _ip(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=False)


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """Another network namespace, joined to this one by a cable."""
    name = f"dragoman-{os.getpid()}"
    try:
        made = _ip("netns", "add", name)
    except FileNotFoundError:
        pytest.skip("there is no `ip` here to make a network namespace with")
    if made.returncode:
        pytest.skip(f"no network namespace can be made here: {made.stderr.strip()}")
    near, far = f"dg{os.getpid()}", f"df{os.getpid()}"
    try:
        for words in (
            ("link", "add", near, "type", "veth", "peer", "name", far, "netns", name),
            ("addr", "add", f"{HERE}/30", "dev", near),
            ("link", "set", near, "up"),
            ("-n", name, "addr", "add", f"{THERE}/30", "dev", far),
            ("-n", name, "link", "set", far, "up"),
        ):
            done = _ip(*words)
            if done.returncode:
                pytest.skip(f"no cable between network namespaces here: {done.stderr.strip()}")
        yield name
    finally:
        _ip("link", "del", near)
        _ip("netns", "del", name)


def _reaches(namespace: str, port: int) -> bool:
    command = ["ip", "netns", "exec", namespace, sys.executable, "-c", TRY, HERE, str(port)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_plain_listeners_cannot_be_reached_from_another_machine(elsewhere: str) -> None:
    with socket.create_server((HERE, 0)) as known:
        assert _reaches(elsewhere, known.getsockname()[1]), "the cable does not work"
    with LocalBroker(*LINKS) as broker:
        ports = {name: int(at.rpartition(":")[2]) for name, at in broker.endpoints.items()}
        assert set(ports) == set(LINKS)
        assert [name for name, port in ports.items() if _reaches(elsewhere, port)] == []


def test_a_listener_with_a_key_can(elsewhere: str, tmp_path: Path) -> None:
    house = House(tmp_path / "house")
    with house.broker("nfp", listen={"nfp": f"tcp://{HERE}:0"}) as broker:
        assert _reaches(elsewhere, int(broker.endpoints["nfp"].rpartition(":")[2]))
