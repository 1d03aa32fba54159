"""Targets deliver lines, and every failure is an OSError."""

import re
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from dragoman.server.record_targets import open_target, syslog_message

LINES = [b'{"seq":1}\n', b'{"seq":2}\n']


def test_a_file_is_appended_to_and_a_line_that_was_cut_short_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    target = open_target(f"file://{path}")
    target.write(LINES)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with path.open("ab") as file:
        file.write(b'{"se')
    target.write(LINES[1:])
    assert path.read_bytes() == b"".join(LINES) + b'{"se\n' + LINES[1]
    path.rename(tmp_path / "rotated")
    target.write(LINES[:1])
    assert path.read_bytes() == LINES[0]


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        open_target(f"file://{tmp_path}/missing/audit.jsonl").write(LINES)


def test_syslog_messages_have_the_form_of_rfc_5424() -> None:
    form = rb"<110>1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \S+ dragoman \d+ audit - {\"seq\":1}"
    assert re.fullmatch(form, syslog_message(LINES[0]))


def test_syslog_over_tcp_counts_octets() -> None:
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as connection, connection.makefile("rb") as file:
                received.append(file.read())

        thread = threading.Thread(target=serve)
        thread.start()
        open_target(f"syslog+tcp://127.0.0.1:{server.getsockname()[1]}").write(LINES)
        thread.join(10)
    size, _, rest = received[0].partition(b" ")
    assert rest[: int(size)].endswith(b'{"seq":1}')
    assert rest[int(size) :].endswith(b'{"seq":2}')


def test_syslog_over_udp_sends_a_datagram_for_each_line() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(10)
        open_target(f"syslog+udp://127.0.0.1:{server.getsockname()[1]}").write(LINES)
        assert [server.recv(4096)[-9:] for _ in LINES] == [b'{"seq":1}', b'{"seq":2}']


@contextmanager
def http_server(status: int) -> Iterator[tuple[str, list[bytes]]]:
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/audit?x=1", bodies
    finally:
        thread.join(10)
        server.server_close()


def test_http_posts_the_lines_and_only_2xx_is_a_delivery() -> None:
    with http_server(204) as (url, bodies):
        open_target(url).write(LINES)
    assert bodies == [b"".join(LINES)]
    with http_server(500) as (url, _), pytest.raises(OSError, match="status 500"):
        open_target(url).write(LINES)
    with pytest.raises(OSError, match="refused"):
        open_target(url).write(LINES)


@pytest.mark.parametrize("url", ["", "audit.jsonl", "file:", "ftp://host/x", "syslog://host"])
def test_any_other_url_is_refused_with_the_forms(url: str) -> None:
    with pytest.raises(ValueError, match="is no target; write file:///PATH"):
        open_target(url)
