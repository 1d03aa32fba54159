"""Requests to an issuer of tokens: JSON over HTTPS, bounded in time and size.

They block: call them in a thread. Redirects are not followed.
"""

import http.client
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlencode, urlsplit

import msgspec

from dragoman.server.issuer_settings import check_url

_TIMEOUT: Final = 10.0
_LARGEST: Final = 1024 * 1024
_OK: Final = 200


class IssuerUnavailable(OSError):
    """An issuer does not answer, or not as it should; the message names it."""


class IssuerRefusal(ValueError):
    """An issuer refuses a request; the message gives its reason."""


class Fetch(Protocol):
    """Gets a JSON object from a URL."""

    def __call__(
        self,
        url: str,
        authority: Path | None,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Get the object, or post a form and return the answer."""
        ...


def fetch_json(
    url: str,
    authority: Path | None,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Get a JSON object, or post a form and return the object of the answer."""
    place = urlsplit(url)
    try:
        check_url(place._replace(query="").geturl())
        status, raw = _exchange(url, authority, form, headers or {})
        found = msgspec.json.decode(raw)
    except (OSError, http.client.HTTPException, ValueError, msgspec.DecodeError) as error:
        raise IssuerUnavailable(f"{place.hostname} does not answer as it should: {error}") from None
    if not isinstance(found, dict):
        raise IssuerUnavailable(f"{place.hostname} answers with no JSON object")
    if status != _OK:
        _raise(place.hostname or "", status, found)
    return found


def _exchange(
    url: str, authority: Path | None, form: Mapping[str, str] | None, headers: Mapping[str, str]
) -> tuple[int, bytes]:
    place = urlsplit(url)
    host = place.hostname or ""
    connection: http.client.HTTPConnection
    if place.scheme == "https":
        trusted = ssl.create_default_context(cafile=str(authority) if authority else None)
        connection = http.client.HTTPSConnection(
            host, place.port, timeout=_TIMEOUT, context=trusted
        )
    else:
        connection = http.client.HTTPConnection(host, place.port, timeout=_TIMEOUT)
    target = (place.path or "/") + (f"?{place.query}" if place.query else "")
    sent = {"Accept": "application/json", **headers}
    body = None
    if form is not None:
        body, sent["Content-Type"] = urlencode(form), "application/x-www-form-urlencoded"
    try:
        connection.request("POST" if form is not None else "GET", target, body, sent)
        answer = connection.getresponse()
        raw = answer.read(_LARGEST + 1)
    finally:
        connection.close()
    if len(raw) > _LARGEST:
        raise ValueError(f"more than {_LARGEST} bytes")
    return answer.status, raw


def _raise(host: str, status: int, found: Mapping[str, object]) -> None:
    """Raise the issuer's own error (RFC 6749, 5.2), in characters that a log can hold."""
    if not found.get("error"):
        raise IssuerUnavailable(f"{host} answers with status {status}")
    words = [str(found[name])[:200] for name in ("error", "error_description") if name in found]
    plain = "".join(c if c.isprintable() else "?" for c in ": ".join(words))
    raise IssuerRefusal(f"{host} refuses: {plain}")
