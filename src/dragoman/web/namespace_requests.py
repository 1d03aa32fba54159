"""Requests of several namespaces on one listener: each goes to its own web application.

The token, the session or the certificate of a request tells its namespace, in the same order as it
tells its key. Paths that need no key belong to the default namespace. The application that gets the
request checks the key again.
"""

from collections.abc import Mapping
from typing import Protocol

from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.web.browser_sessions import BrowserSessions
from dragoman.web.identity import authorization_in, cookie_in, needs_no_key, proven_keys


class NamespaceRequests(Protocol):
    """Finds web applications; None: that of the default namespace."""

    def app_of_key(self, key: str) -> ASGIApp | None:
        """Return the web application of a key's namespace."""
        ...

    def app_of_token(self, secret: str) -> ASGIApp | None:
        """Return the web application of a token's namespace."""
        ...


class NamespaceMiddleware:
    """Passes each request on to the web application of its namespace."""

    def __init__(
        self, default: ASGIApp, requests: NamespaceRequests, sessions: BrowserSessions
    ) -> None:
        self._default = default
        self._requests = requests
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on."""
        found = None
        if scope["type"] == "http" and not needs_no_key(scope["path"]):
            found = self._find(dict(scope["headers"]), proven_keys(scope).key)
        await (found or self._default)(scope, receive, send)

    def _find(self, headers: Mapping[bytes, bytes], certificate_key: str) -> ASGIApp | None:
        scheme, secret = authorization_in(dict(headers))
        if scheme:
            return self._requests.app_of_token(secret) if scheme == "bearer" else None
        cookie = cookie_in(dict(headers))
        session = self._sessions.find(cookie) if cookie else None
        key = session.key if session is not None else certificate_key
        return self._requests.app_of_key(key) if key else None
