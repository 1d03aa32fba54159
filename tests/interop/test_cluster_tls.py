"""Three nodes with the keys of one `dragoman init`: routes are encrypted, strangers are refused."""

import json
import socket
import ssl
from pathlib import Path
from typing import Final

import pytest
from tests.interop.cluster_network import NodeNetwork
from tests.interop.cluster_nodes import HOSTS, PATIENCE, Cluster
from tests.interop.harness import Fleet, run_dragoman, until

from dragoman.transports.nats_cluster import ROUTE_USER, route_password

pytestmark = pytest.mark.interop

_WITHIN: Final = 20.0


def init_keys(folder: Path) -> Path:
    """Run `dragoman init` for all nodes; return the folder of the keys."""
    hosts = [NodeNetwork().host(name) for name in HOSTS]
    named = [word for host in hosts for word in ("--name", host)]
    done = run_dragoman("init", str(folder), *named)
    assert done.returncode == 0, done.stderr
    return folder / "keys"


def credentials(keys: Path) -> str:
    """Return the settings that `init` writes about certificates."""
    files = {"certificate": "broker-tls.pem", "key": "broker-tls.key", "authority": "authority.pem"}
    lines = [f'{name} = "{keys / file}"' for name, file in files.items()]
    return "\n".join(["[credentials]", *lines, ""])


class Caller:
    """Connects to a node's port for routes, as another nats-server would."""

    def __init__(self, place: str) -> None:
        self._host, _, port = place.rpartition(":")
        self._socket: socket.socket = socket.create_connection((self._host, int(port)), _WITHIN)

    def encrypt(self, context: ssl.SSLContext) -> None:
        self._socket = context.wrap_socket(self._socket, server_hostname=self._host)

    def greet(self, password: str) -> str:
        """Introduce itself as a server with a password; return all that the node answers."""
        said = {"name": "stranger", "user": ROUTE_USER, "pass": password, "cluster": "test"}
        self._socket.sendall(f"CONNECT {json.dumps(said)}\r\nPING\r\n".encode())
        found = b""
        while part := self._socket.recv(65536):
            found += part
            if b"PONG" in found or b"-ERR" in found:
                break
        return found.decode(errors="replace")

    def close(self) -> None:
        self._socket.close()


def call(place: str, password: str, context: ssl.SSLContext | None) -> str:
    """Call a node; return what it answers, or that it hung up."""
    caller = Caller(place)
    try:
        if context is not None:
            caller.encrypt(context)
        return caller.greet(password) or "hung up"
    except TimeoutError:
        raise
    except OSError as error:  # SSLError is one
        return f"hung up: {error}"
    finally:
        caller.close()


def trusting(keys: Path, own: Path | None) -> ssl.SSLContext:
    """Trust the authority of the cluster; show the certificate of another folder, or none."""
    context = ssl.create_default_context(cafile=str(keys / "authority.pem"))
    if own is not None:
        context.load_cert_chain(own / "broker-tls.pem", own / "broker-tls.key")
    return context


@pytest.mark.timeout(600)
def test_routes_are_encrypted_and_a_stranger_does_not_get_in(fleet: Fleet) -> None:
    keys, other = init_keys(fleet.folder / "init"), init_keys(fleet.folder / "other")
    cluster = Cluster(fleet, ("nfp",), credentials(keys))
    node = cluster.nodes["a"]
    until(lambda: node.cli("status")[0] == 0, "one leads and all answer", PATIENCE, every=0.5)
    password = route_password(cluster.token_file.read_text().strip())
    # The right secret does not help without encryption, nor without the right certificate.
    assert call(cluster.routes["a"], password, None).startswith("hung up")
    for name in HOSTS:
        place = cluster.routes[name]
        for context in (trusting(keys, None), trusting(keys, other)):
            answer = call(place, password, context)
            assert answer.startswith("hung up"), answer
        # Nor does the certificate without the secret.
        answer = call(place, "wrong" * 8, trusting(keys, keys))
        assert answer.startswith("INFO"), answer
        assert "Authorization Violation" in answer
    assert node.cli("status")[0] == 0
    code, found = node.cli("verify")
    assert code == 0, found
