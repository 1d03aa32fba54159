"""Targets for lines that leave the broker: a file, syslog (RFC 5424), or HTTP.

All of them block: call them in a thread. An error is an `OSError`, and the caller retries.
"""

import http.client
import os
import socket
import time
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import SplitResult, urlsplit

_TIMEOUT: Final = 10.0
_SYSLOG_PORT: Final = 514
#: Facility 13 (log audit), severity 6 (informational).
_PRIORITY: Final = 13 * 8 + 6
#: The longest message that every syslog receiver must take over UDP is shorter; most take this.
_UDP_LARGEST: Final = 60_000


class RecordTarget(Protocol):
    """Takes JSON lines."""

    def write(self, lines: list[bytes]) -> None:
        """Deliver some lines. Raises OSError if that is not certain."""
        ...


def open_target(url: str) -> RecordTarget:
    """Return the target of a URL. Raises ValueError if it is none."""
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.path:
        return FileTarget(Path(parts.path))
    if parts.scheme in ("syslog+tcp", "syslog+udp") and parts.hostname:
        return SyslogTarget(parts)
    if parts.scheme in ("http", "https") and parts.hostname:
        return HttpTarget(parts)
    forms = "file:///PATH, syslog+tcp://HOST:PORT, syslog+udp://HOST:PORT or https://HOST/PATH"
    raise ValueError(f"{url!r} is no target; write {forms}")


class FileTarget:
    """Appends to a file, which may be rotated between two writes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, lines: list[bytes]) -> None:
        """Append the lines, and sync them to disk."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        with open(descriptor, "ab") as file:
            end = os.fstat(descriptor).st_size
            if end and os.pread(descriptor, 1, end - 1) != b"\n":
                file.write(b"\n")  # an earlier write was cut short; its lines are written again
            file.writelines(lines)
            file.flush()
            os.fsync(descriptor)


class SyslogTarget:
    """Sends RFC 5424 messages: over TCP with octet counts (RFC 6587), or over UDP."""

    def __init__(self, parts: SplitResult) -> None:
        self._address = (parts.hostname or "", parts.port or _SYSLOG_PORT)
        self._is_tcp = parts.scheme == "syslog+tcp"

    def write(self, lines: list[bytes]) -> None:
        """Send the lines."""
        if not self._is_tcp:
            self._send_datagrams(lines)
            return
        with socket.create_connection(self._address, _TIMEOUT) as connection:
            for line in lines:
                message = syslog_message(line)
                connection.sendall(b"%d %s" % (len(message), message))
            # The receiver has read all of it when it closes its side, too.
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass

    def _send_datagrams(self, lines: list[bytes]) -> None:
        family = socket.getaddrinfo(*self._address, type=socket.SOCK_DGRAM)[0][0]
        with socket.socket(family, socket.SOCK_DGRAM) as datagrams:
            for line in lines:
                datagrams.sendto(syslog_message(line)[:_UDP_LARGEST], self._address)


def syslog_message(line: bytes) -> bytes:
    """Return a line as an RFC 5424 message."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    header = f"<{_PRIORITY}>1 {stamp} {socket.gethostname()[:255] or '-'} dragoman {os.getpid()}"
    return header.encode() + b" audit - " + line.rstrip(b"\n")


class HttpTarget:
    """Posts the lines; every answer of 2xx is a delivery."""

    def __init__(self, parts: SplitResult) -> None:
        self._parts = parts

    def write(self, lines: list[bytes]) -> None:
        """Post the lines as one body."""
        parts = self._parts
        is_tls = parts.scheme == "https"
        kind = http.client.HTTPSConnection if is_tls else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=_TIMEOUT)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            connection.request(
                "POST", path, b"".join(lines), {"Content-Type": "application/x-ndjson"}
            )
            status = connection.getresponse().status
        except http.client.HTTPException as error:
            raise OSError(f"{parts.hostname}: {error}") from None
        finally:
            connection.close()
        if not 200 <= status < 300:
            raise OSError(f"{parts.hostname} answered with status {status}")
