"""From another network namespace, as from another machine: what is plain cannot be reached."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop.harness import run_dragoman
from tests.interop.secured import SecuredSite

from dragoman.testing.harness import LINKS, LocalBroker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

#: Addresses for documentation: nobody's network.
HERE, THERE = "198.51.100.1", "198.51.100.2"
#: Prints the ports that answer; `-S -E` and few imports, because it is a process for each test.
TRY = """
import socket, sys
for port in sys.argv[2:]:
    try:
        socket.create_connection((sys.argv[1], int(port)), 2).close()
    except OSError:
        continue
    print(port)
"""


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


def _reached(namespace: str, *ports: int) -> set[int]:
    """Return the ports that can be reached from the other namespace."""
    command = ["ip", "netns", "exec", namespace, sys.executable, "-S", "-E", "-c", TRY, HERE]
    done = subprocess.run([*command, *map(str, ports)], capture_output=True, text=True, check=True)
    return {int(line) for line in done.stdout.split()}


def _port(broker: LocalBroker, link: str) -> int:
    return int(broker.endpoints[link].rpartition(":")[2])


def test_plain_listeners_cannot_be_reached_from_another_machine(elsewhere: str) -> None:
    with socket.create_server((HERE, 0)) as known, LocalBroker(*LINKS) as broker:
        proof = known.getsockname()[1]
        ports = [_port(broker, link) for link in LINKS]
        # The one that can be reached shows that the cable works.
        assert _reached(elsewhere, proof, *ports) == {proof}


def test_a_listener_with_a_key_can(elsewhere: str, tmp_path: Path) -> None:
    site = SecuredSite(tmp_path / "house")
    with site.broker("nfp", listen={"nfp": f"tcp://{HERE}:0"}) as broker:
        assert _reached(elsewhere, _port(broker, "nfp"))


def test_a_plain_listener_for_others_does_not_start_unless_that_is_meant(tmp_path: Path) -> None:
    words = ("up", "--data", str(tmp_path), "--nfp", "0.0.0.0:0", "--nats", "off", "--http", "off")
    done = run_dragoman(*words)
    assert done.returncode == 2
    assert "nfp would listen on tcp://0.0.0.0:0 without security" in done.stderr
    assert "--insecure" in done.stderr


def test_one_that_is_meant_is_warned_of_at_every_start(
    elsewhere: str, capsys: pytest.CaptureFixture[str]
) -> None:
    open_to_all = {"nfp": f"tcp://{HERE}:0"}
    for _ in range(2):
        with LocalBroker("nfp", listen=open_to_all, credentials={"insecure": True}) as broker:
            assert _reached(elsewhere, _port(broker, "nfp"))
        assert "without security: everybody who can reach it" in capsys.readouterr().out
