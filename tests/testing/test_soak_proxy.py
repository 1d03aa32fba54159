"""A connection that can be cut."""

import socket
import threading

import pytest

from dragoman.testing.soak.proxy import Proxy


def echo(listener: socket.socket) -> None:
    while True:
        try:
            line, _ = listener.accept()
        except OSError:
            return
        while data := line.recv(100):
            line.sendall(data)
        line.close()


def test_bytes_pass_until_the_wire_is_cut_and_again_when_it_is_mended() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=echo, args=(listener,), daemon=True).start()
        proxy = Proxy(f"tcp://127.0.0.1:{listener.getsockname()[1]}")
        address = ("127.0.0.1", proxy.port)
        with socket.create_connection(address, 5) as line:
            line.sendall(b"one")
            assert line.recv(100) == b"one"
            proxy.cut()
            assert ended(line)
        with socket.create_connection(address, 5) as line:
            assert ended(line)
        proxy.mend()
        with socket.create_connection(address, 5) as line:
            line.sendall(b"two")
            assert line.recv(100) == b"two"
        proxy.close()
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(address, 5)
        listener.shutdown(socket.SHUT_RDWR)


def ended(line: socket.socket) -> bool:
    try:
        return line.recv(100) == b""
    except ConnectionError:
        return True
