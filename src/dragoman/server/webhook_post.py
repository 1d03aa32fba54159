"""One delivery of a webhook: which hosts are allowed, how it is signed, and the request itself.

The name is resolved once. Every address must be allowed, and the request goes to one of them, so
a name that changes its address between check and request reaches nothing else.
"""

import hashlib
import hmac
import http.client
import ipaddress
import os
import secrets
import socket
import ssl
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from dragoman.model.value import value
from dragoman.model.webhook import split_hook_url

SIGNATURE: Final = "Dragoman-Signature"
DELIVERY: Final = "Dragoman-Delivery"
_TIMEOUT: Final = 10.0

#: Returns the addresses of a host.
Resolve = Callable[[str, int], Sequence[str]]


class HookRefused(Exception):
    """The settings do not allow this URL; a retry does not help."""


@value
class HookPolicy:
    """Which hosts webhooks may reach."""

    #: Globs of host names. None: every host.
    hosts: tuple[str, ...] | None = None
    #: Whether loopback, private and link-local addresses may be reached.
    is_private_allowed: bool = True

    def check_host(self, host: str) -> None:
        """Raise `HookRefused` if the list of hosts does not have it."""
        if self.hosts is not None and not any(fnmatchcase(host, each) for each in self.hosts):
            raise HookRefused(f"{host} is not in [webhooks] hosts")

    def check_url(self, url: str) -> None:
        """Raise `HookRefused` if a URL may not be reached, as far as its text can say."""
        try:
            host = split_hook_url(url).hostname or ""
        except ValueError as error:
            raise HookRefused(str(error)) from None
        self.check_host(host)
        if _is_address(host):
            self.check_addresses(host, (host,))

    def check_addresses(self, host: str, addresses: Sequence[str]) -> None:
        """Raise `HookRefused` if one of its addresses must not be reached."""
        if self.is_private_allowed:
            return
        for each in addresses:
            if not ipaddress.ip_address(each.partition("%")[0]).is_global:
                raise HookRefused(f"{host} is {each}; set [webhooks] private = true to allow it")


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def open_secret(path: Path) -> bytes:
    """Return the secret that signs deliveries; make it if there is none."""
    try:
        return path.read_text().strip().encode()
    except FileNotFoundError:
        secret = secrets.token_hex(32)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w") as file:
            file.write(secret + "\n")
        return secret.encode()


def signature(secret: bytes, at: int, body: bytes) -> str:
    """Return the header that proves who sent a body, and when."""
    digest = hmac.new(secret, f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in found]


def post(
    url: str, headers: dict[str, str], body: bytes, policy: HookPolicy, lookup: Resolve = resolve
) -> None:
    """Deliver. Raises OSError if it may be tried again, `HookRefused` if not. Blocks."""
    try:
        parts = split_hook_url(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise HookRefused(str(error)) from None
    host = parts.hostname or ""
    policy.check_host(host)
    addresses = lookup(host, port)
    policy.check_addresses(host, addresses)
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
    connection.sock = socket.create_connection((addresses[0], port), _TIMEOUT)
    try:
        if parts.scheme == "https":
            context = ssl.create_default_context()
            connection.sock = context.wrap_socket(connection.sock, server_hostname=host)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, headers)
        status = connection.getresponse().status
    except http.client.HTTPException as error:
        raise OSError(f"{host}: {error!r}") from None
    finally:
        connection.close()
    if not 200 <= status < 300:
        raise OSError(f"{host} answered with status {status}")
