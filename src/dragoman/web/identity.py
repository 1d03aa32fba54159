"""Who asks: a bearer token, a client certificate, or a browser's session. Nobody else is answered.

Here a request gets its key; what the key may do is decided elsewhere. A browser that has logged in
sends its cookie with every request, also with those that a page of another site made it
send; so what changes anything has to repeat, in a header, a word that such a page cannot read.
"""

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.model.value import value
from dragoman.web.problems import Problem

COOKIE: Final = "dragoman_session"
CSRF_HEADER: Final = "Dragoman-CSRF"
#: For everybody: whether the broker lives, what it can be asked, and how to be let in.
OPEN: Final = frozenset({"/healthz", "/readyz", "/openapi.json", "/login", "/v1/enrol"})
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: Sessions kept, and for how long they last unused and in all, in seconds.
MOST: Final = 1000
IDLE: Final = 3600.0
LONGEST: Final = 12 * 3600.0

#: On every answer; a route that needs another word says it itself.
HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)
_STRICT: Final = (b"strict-transport-security", b"max-age=31536000")


@value
class HttpCaller:
    """Who makes a request."""

    key: str = ""
    principal: str = ""


class ProvenKeys:
    """What has been proved on one connection: its certificate's key, and all keys of requests."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.keys: set[str] = set()


#: Under which name a request's state has it.
PROVEN_KEYS: Final = "proven"
ANONYMOUS: Final = HttpCaller()
#: Who makes the request that is being answered.
CALLER: ContextVar[HttpCaller] = ContextVar("who asks", default=ANONYMOUS)


@value
class Checks:
    """What the door asks about keys."""

    #: Returns the key of a bearer token that may speak now.
    check_token: Callable[[str], str | None]
    #: Tells whether a key may speak.
    admits: Callable[[str], bool]
    #: Names whom a key speaks for.
    principal_of: Callable[[str], str] = str
    #: Returns why a key may not see something (services, workers, clients, jobs, why, metrics).
    may_look: Callable[[str, str], str] = lambda key, what: ""
    #: Lets a key in with a one-time token and returns whom it speaks for; ValueError says why not.
    enrol: Callable[[str, str, str], str] | None = None


@value
class BrowserSession:
    """A browser that has logged in."""

    key: str
    csrf: str
    began_at: float
    used_at: float


class BrowserSessions:
    """Browsers that have logged in; only the hash of a cookie is kept."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._sessions: OrderedDict[str, BrowserSession] = OrderedDict()

    def begin(self, key: str) -> tuple[str, BrowserSession]:
        """Begin a session; return its cookie with it."""
        cookie, now = secrets.token_urlsafe(32), self._now()
        session = BrowserSession(key, secrets.token_urlsafe(32), now, now)
        self._sessions[_hashed(cookie)] = session
        if len(self._sessions) > MOST:
            self._sessions.popitem(last=False)
        return cookie, session

    def find(self, cookie: str) -> BrowserSession | None:
        """Return the session of a cookie, if it has not ended."""
        id_, now = _hashed(cookie), self._now()
        session = self._sessions.pop(id_, None)
        if session is None or now - session.used_at > IDLE or now - session.began_at > LONGEST:
            return None
        session = BrowserSession(session.key, session.csrf, session.began_at, now)
        self._sessions[id_] = session
        return session

    def end(self, cookie: str) -> None:
        """End the session of a cookie."""
        self._sessions.pop(_hashed(cookie), None)

    def cut(self, key: str) -> None:
        """End every session of a key."""
        self._sessions = OrderedDict((i, s) for i, s in self._sessions.items() if s.key != key)


def _hashed(cookie: str) -> str:
    return sha256(cookie.encode()).hexdigest()


class IdentityMiddleware:
    """Lets a request through once it is known who makes it."""

    def __init__(self, app: ASGIApp, checks: Checks | None, sessions: BrowserSessions) -> None:
        self._app = app
        self._checks = checks
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Find out who asks; refuse who cannot be known."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        dressed = _dressed(send, scope["scheme"] == "https")
        try:
            who = self._who(scope)
        except Problem as problem:
            await problem.response()(scope, receive, dressed)
            return
        token = CALLER.set(who)
        try:
            await self._app(scope, receive, dressed)
        finally:
            CALLER.reset(token)

    def _who(self, scope: Scope) -> HttpCaller:
        here: ProvenKeys = scope.get("state", {}).get(PROVEN_KEYS) or ProvenKeys("")
        if self._checks is None:
            return HttpCaller(here.key, "")
        if scope["path"] in OPEN:
            return ANONYMOUS
        key = self._key(scope, here.key)
        if not self._checks.admits(key):
            raise Problem(403, "this key may not speak: it waits for approval, or has ended")
        here.keys.add(key)
        return HttpCaller(key, self._checks.principal_of(key))

    def _key(self, scope: Scope, proved: str) -> str:
        assert self._checks is not None
        headers = dict(scope["headers"])
        scheme, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        if scheme:
            key = self._checks.check_token(secret.strip()) if scheme.lower() == "bearer" else None
            if key is None:
                raise _unknown("this token may not speak: unknown, ended or revoked")
            return key
        cookie = cookie_in(headers)
        session = self._sessions.find(cookie) if cookie else None
        if session is not None:
            _check_csrf(scope["method"], headers, session)
            return session.key
        if proved:
            return proved
        raise _unknown("say who asks: a bearer token, a certificate, or log in at /login")


def cookie_in(headers: dict[bytes, bytes]) -> str:
    """Return the session's cookie of a request; empty if it has none."""
    try:
        found = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _check_csrf(method: str, headers: dict[bytes, bytes], session: BrowserSession) -> None:
    if method in _SAFE:
        return
    said = headers.get(CSRF_HEADER.lower().encode(), b"")
    if not hmac.compare_digest(said, session.csrf.encode()):
        words = f"a browser's session says its word in {CSRF_HEADER}; GET /session tells it"
        raise Problem(403, words, "csrf")


def _unknown(words: str) -> Problem:
    return Problem(401, words, "unauthenticated", headers={"WWW-Authenticate": "Bearer"})


def _dressed(send: Send, is_secure: bool) -> Send:
    """Add the headers that keep browsers from harm."""
    wanted = (*HEADERS, _STRICT) if is_secure else HEADERS

    async def dressed(message: Message) -> None:
        if message["type"] == "http.response.start":
            said = {name.lower() for name, _ in message["headers"]}
            message["headers"] = [
                *message["headers"],
                *((name, text) for name, text in wanted if name not in said),
            ]
        await send(message)

    return dressed
