"""Authentication: a bearer token, a client certificate, or a browser session.

This module finds the key of a request; the gate decides what the key may do. A browser sends its
session cookie also with requests that a page of another site caused. So a request that changes
something must repeat the CSRF token in a header, which such a page cannot read.
"""

import hmac
from collections.abc import Callable
from contextvars import ContextVar
from http.cookies import CookieError, SimpleCookie
from typing import Final, Protocol

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.model.value import value
from dragoman.web.browser_sessions import BrowserSessions, csrf_of
from dragoman.web.problems import Problem

COOKIE: Final = "dragoman_session"
CSRF_HEADER: Final = "Dragoman-CSRF"
#: Paths that need no authentication.
OPEN: Final = frozenset(
    {"/", "/healthz", "/readyz", "/openapi.json", "/docs", "/login", "/v1/enrol"}
)
#: The dashboard's files hold no data; below the other, people log in.
_OPEN_FOLDERS: Final = ("/dashboard/", "/login/")
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})

#: Headers of every response, unless a route sets its own.
HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # With `no-referrer` a browser sends `Origin: null` from our own form, as a sandbox does.
    (b"referrer-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)
_HSTS: Final = (b"strict-transport-security", b"max-age=31536000")


@value
class HttpCaller:
    """The caller of a request."""

    key: str = ""
    principal: str = ""


class ProvenKeys:
    """The keys proven on one connection: of its certificate, and of its requests."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.keys: set[str] = set()


#: The member of a request's state that holds them.
PROVEN_KEYS: Final = "proven"
ANONYMOUS: Final = HttpCaller()
#: The caller of the request that is being handled.
CALLER: ContextVar[HttpCaller] = ContextVar("caller", default=ANONYMOUS)


class FederatedLogins(Protocol):
    """Issuers of tokens, as the web application uses them.

    They raise OSError if an issuer does not answer, and ValueError with the reason of a refusal.
    """

    @property
    def logins(self) -> dict[str, str]:
        """Issuers at which people log in: their labels by name."""
        ...

    async def check(self, token: str) -> str | None:
        """Return the key of a valid bearer token; None if it is not valid."""
        ...

    def address(self, name: str) -> str:
        """Return the configured address of the dashboard; empty: that of the request."""
        ...

    async def login_url(self, name: str, redirect: str, **flow: str) -> str:
        """Return where a browser goes to log in."""
        ...

    async def finish_login(
        self, name: str, *, code: str, redirect: str, verifier: str, nonce: str, issuer: str
    ) -> str:
        """Exchange a code for a login; return its key."""
        ...


class ChecksPasswords(Protocol):
    """Names and passwords of people, as the web application uses them."""

    @property
    def is_on(self) -> bool:
        """Whether anybody has a password."""
        ...

    async def check(self, name: str, password: str, address: str) -> tuple[str, float]:
        """Return the key of a right password, else an empty one, and the seconds to wait."""
        ...


@value
class Checks:
    """The callbacks that check keys."""

    #: Returns the key of a valid bearer token; None if the token is not valid.
    check_token: Callable[[str], str | None]
    #: Returns whether a key is admitted.
    admits: Callable[[str], bool]
    #: Returns the principal of a key.
    principal_of: Callable[[str], str] = str
    #: Returns why a key may not read services, workers, clients, jobs, why or metrics; empty: it
    #: may.
    may_look: Callable[[str, str], str] = lambda key, what: ""
    #: Enrols a key with a one-time token and returns its principal; raises ValueError if refused.
    enrol: Callable[[str, str, str], str] | None = None
    #: Issuers of tokens; None: there are none.
    federation: FederatedLogins | None = None
    #: Passwords of people; None: there are none.
    passwords: ChecksPasswords | None = None
    #: Returns the key of a token with which a browser logs in; None: `check_token` does.
    login: Callable[[str], str | None] | None = None


#: Reasons in the counts of the listener, by status.
_REASONS: Final = {401: "no valid credentials", 403: "key refused"}


class IdentityMiddleware:
    """Passes authenticated requests on and refuses the others."""

    def __init__(
        self,
        app: ASGIApp,
        checks: Checks | None,
        sessions: BrowserSessions,
        note: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._app = app
        self._checks = checks
        self._sessions = sessions
        #: Called with the reason of each refused request.
        self._note = note

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send_with_headers = _with_security_headers(send, scope["scheme"] == "https")
        try:
            caller = await self._caller(scope)
        except Problem as problem:
            self._note(_REASONS.get(problem.status, "refused"))
            await problem.response()(scope, receive, send_with_headers)
            return
        token = CALLER.set(caller)
        try:
            await self._app(scope, receive, send_with_headers)
        finally:
            CALLER.reset(token)

    async def _caller(self, scope: Scope) -> HttpCaller:
        proven = proven_keys(scope)
        if self._checks is None:
            return HttpCaller(proven.key, "")
        if needs_no_key(scope["path"]):
            return ANONYMOUS
        key = await self._key(scope, proven.key)
        if not self._checks.admits(key):
            raise Problem(
                403,
                "this key is not admitted: it waits for approval, or has expired or been revoked",
            )
        proven.keys.add(key)
        return HttpCaller(key, self._checks.principal_of(key))

    async def _token_key(self, token: str) -> str | None:
        """Return the key of a token: of the registry, or of an issuer."""
        assert self._checks is not None
        key, issuers = self._checks.check_token(token), self._checks.federation
        if key is not None or issuers is None:
            return key
        try:
            return await issuers.check(token)
        except OSError as error:
            detail = f"the token cannot be checked now: {error}"
            raise Problem(503, detail, "busy", headers={"Retry-After": "5"}) from None

    async def _key(self, scope: Scope, certificate_key: str) -> str:
        headers = dict(scope["headers"])
        scheme, secret = authorization_in(headers)
        if scheme:
            key = await self._token_key(secret) if scheme == "bearer" else None
            if key is None:
                raise _unauthenticated("invalid token: unknown, expired or revoked")
            return key
        cookie = cookie_in(headers)
        session = self._sessions.find(cookie) if cookie else None
        if session is not None:
            _check_csrf(scope["method"], headers, cookie)
            return session.key
        if certificate_key:
            return certificate_key
        raise _unauthenticated(
            "authenticate with a bearer token or a certificate, or log in at /login"
        )


def proven_keys(scope: Scope) -> ProvenKeys:
    """Return the keys proven on the connection of a request."""
    return scope.get("state", {}).get(PROVEN_KEYS) or ProvenKeys("")


def needs_no_key(path: str) -> bool:
    """Tell whether a path needs no authentication."""
    return path in OPEN or path.startswith(_OPEN_FOLDERS)


def authorization_in(headers: dict[bytes, bytes]) -> tuple[str, str]:
    """Return scheme, in small letters, and secret of a request; empty if it has none."""
    scheme, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    return scheme.lower(), secret.strip()


def cookie_in(headers: dict[bytes, bytes]) -> str:
    """Return the session cookie of a request; empty if it has none."""
    try:
        found = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _check_csrf(method: str, headers: dict[bytes, bytes], cookie: str) -> None:
    if method in _SAFE:
        return
    token = headers.get(CSRF_HEADER.lower().encode(), b"")
    if not hmac.compare_digest(token, csrf_of(cookie).encode()):
        detail = f"send the session's CSRF token in {CSRF_HEADER}; GET /session returns it"
        raise Problem(403, detail, "csrf")


def _unauthenticated(detail: str) -> Problem:
    return Problem(401, detail, "unauthenticated", headers={"WWW-Authenticate": "Bearer"})


def _with_security_headers(send: Send, is_secure: bool) -> Send:
    """Add the security headers to a response."""
    security_headers = (*HEADERS, _HSTS) if is_secure else HEADERS

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message["headers"]}
            message["headers"] = [
                *message["headers"],
                *((name, text) for name, text in security_headers if name not in present),
            ]
        await send(message)

    return send_with_headers
