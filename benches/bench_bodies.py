"""How fast bodies travel: `echo` of 1 KB, 100 KB and 10 MB, one call at a time, beside a socket.

Bytes a second count a body twice, since it goes to the worker and comes back. The socket is the
bound: another process sends back what it gets over TCP, with nothing in between. A call crosses the
broker, which writes the body to the ledger, so each byte passes two sockets each way.
"""

import multiprocessing
import socket
import time
from collections.abc import Callable
from statistics import median

from benches.bench_sdk import Row, fabric_of

from dragoman import Client

SIZES = {"1 KB": 1_000, "100 KB": 100_000, "10 MB": 10_000_000}
DIALECTS = ("nfp", "dcp", "zss", "memo", "http")
SERVICE = "relaxed"
SECONDS = 3.0


def run() -> list[Row]:
    """Measure the bare socket, then each dialect."""
    rows: list[Row] = []
    bare = {name: socket_copy(size) for name, size in SIZES.items()}
    rows += [(f"bodies: bare socket, {name}", rate / 1e6, "MB/s") for name, rate in bare.items()]
    for dialect in DIALECTS:
        with fabric_of(dialect, SERVICE, 1) as fabric, Client(fabric.url(dialect)) as client:
            for name, size in SIZES.items():
                rate = calls(client, size)
                rows.append((f"bodies: {dialect}, {name}", rate / 1e6, "MB/s"))
                rows.append((f"bodies: {dialect}, {name}, of the socket", rate / bare[name], ""))
    return rows


def calls(client: Client, size: int) -> float:
    """Return bytes a second of calls that echo bytes."""
    body = bytes(range(256)) * (size // 256 + 1)

    def one() -> None:
        found = client.call(SERVICE, "echo", value=body[:size])
        assert isinstance(found, bytes)
        assert len(found) == size

    return rate_of(one, size)


def rate_of(one: Callable[[], None], size: int) -> float:
    """Repeat for some seconds, at least five times; return bytes a second of the median."""
    one()
    took: list[float] = []
    until = time.perf_counter() + SECONDS
    while time.perf_counter() < until or len(took) < 5:
        begun = time.perf_counter()
        one()
        took.append(time.perf_counter() - begun)
    return 2 * size / median(took)


# --- the bound --------------------------------------------------------------------------------


def socket_copy(size: int) -> float:
    """Return bytes a second through one TCP connection and back."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = multiprocessing.get_context("fork").Process(
            target=_send_back, args=(server, size)
        )
        process.start()
        body = bytes(size)
        with socket.create_connection(server.getsockname()) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def one() -> None:
                connection.sendall(body)
                _receive(connection, size)

            rate = rate_of(one, size)
        process.join()
        return rate


def _send_back(server: socket.socket, size: int) -> None:
    connection, _ = server.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while body := _receive(connection, size):
        connection.sendall(body)


def _receive(connection: socket.socket, size: int) -> bytearray:
    """Receive so many bytes; none if the other side has closed."""
    body, filled = bytearray(size), 0
    view = memoryview(body)
    while filled < size:
        count = connection.recv_into(view[filled:])
        if not count:
            return bytearray()
        filled += count
    return body
