"""Finds out why a broker does not answer: nothing listens, or another protocol does.

Called only after a failure. It opens plain connections of its own, and sends one HTTP request if
the server sends nothing first.
"""

import contextlib
import socket
import time
from typing import Final
from urllib.parse import urlsplit

from dragoman.dialects.listeners import LISTENERS
from dragoman.sdk.url import Endpoint
from dragoman.transports.recognition import HTTP, NATS, NNG, TLS, ZEROMQ, recognise

#: The protocol below each dialect; the others use ZeroMQ.
_BELOW: Final = {"memo": NNG, "ncl": NATS, "http": HTTP}
#: Seconds that a server may take to send its first bytes.
_GREETING: Final = 0.5
_ASK: Final = "is `dragoman up` running there?"
_REQUEST: Final = b"GET / HTTP/1.0\r\n\r\n"


def diagnose(endpoint: Endpoint, within: float = 2.0) -> str:
    """Return why no broker answers at an endpoint, as one sentence for each address."""
    return "; ".join(_diagnose_one(each, within) for each in endpoint.alternatives())


def _diagnose_one(endpoint: Endpoint, within: float) -> str:
    found = _obstacle_at(endpoint, within)
    if found:
        return found
    where = urlsplit(endpoint.address).netloc.rpartition("@")[2] or str(endpoint)
    return f"no broker answers {endpoint.dialect} at {where}; {_usual(endpoint)}"


def find_obstacle(endpoint: Endpoint, within: float = 2.0) -> str:
    """Return why no broker can answer at an endpoint; empty if an address has the protocol."""
    found = []
    for each in endpoint.alternatives():
        obstacle = _obstacle_at(each, within)
        if not obstacle:
            return ""
        found.append(obstacle)
    return "; ".join(found)


def _obstacle_at(endpoint: Endpoint, within: float) -> str:
    parts = urlsplit(endpoint.address)
    if parts.scheme == "ipc":
        return ""
    address = (parts.hostname or "", parts.port or 0)
    where = f"{parts.hostname}:{parts.port}"
    try:
        found = _protocol_at(address, within)
    except ConnectionRefusedError:
        return f"nothing listens at {where} (connection refused); {_ASK}"
    except socket.gaierror:
        return f"the host name {parts.hostname!r} is unknown; check the URL {endpoint}"
    except OSError as error:
        return f"cannot connect to {where}: {error.strerror or error}; {_ASK}"
    return _explain(endpoint, where, found)


def _explain(endpoint: Endpoint, where: str, found: str) -> str:
    wanted = _BELOW.get(endpoint.dialect, ZEROMQ)
    if found == TLS and endpoint.is_secure:
        return ""
    if found == TLS:
        hint = "use https://" if wanted == HTTP else "give credentials with --key"
        return f"{where} uses TLS, and {endpoint} does not; {hint}"
    if found and found != wanted:
        return (
            f"{where} speaks {found}, but {endpoint.dialect}:// needs {wanted}; {_usual(endpoint)}"
        )
    return ""


def other_owner(endpoint: Endpoint) -> str:
    """Name the other dialect whose usual port an address has; empty if there is none."""
    ports = [urlsplit(each.address).port for each in endpoint.alternatives()]
    for each in LISTENERS:
        if each.port in ports and each.dialect != endpoint.dialect:
            return f"{each.port} is the usual port of {each.peers} ({each.dialect}://)"
    return ""


def _usual(endpoint: Endpoint) -> str:
    """Name the dialect whose usual port this is, or else the usual port of the dialect."""
    if other := other_owner(endpoint):
        return other
    own = [str(each.port) for each in LISTENERS if each.dialect == endpoint.dialect]
    return f"the usual port of {endpoint.dialect} is {' or '.join(own)}"


def _protocol_at(address: tuple[str, int], within: float) -> str:
    """Connect and recognise the server by its first bytes. Raises OSError."""
    first = _first_bytes(address, b"", within)
    return recognise(first or _first_bytes(address, _REQUEST, within))


def _first_bytes(address: tuple[str, int], request: bytes, within: float) -> bytes:
    with socket.create_connection(address, within) as connection:
        deadline = time.monotonic() + _GREETING
        data = b""
        with contextlib.suppress(OSError):
            connection.sendall(request)
            while len(data) < 16 and (left := deadline - time.monotonic()) > 0:
                connection.settimeout(left)
                piece = connection.recv(64)
                if not piece:
                    break
                data += piece
        return data
