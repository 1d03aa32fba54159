"""Login of browsers: a token is exchanged for a session cookie."""

import re
from html import escape
from typing import Final
from urllib.parse import parse_qs, urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from dragoman.web.browser_sessions import LONGEST, BrowserSessions, csrf_of
from dragoman.web.identity import CALLER, COOKIE, Checks, cookie_in
from dragoman.web.job_documents import answer
from dragoman.web.problems import Problem
from dragoman.web.request_reading import media_type, read_bytes, read_json

_FORM: Final = "application/x-www-form-urlencoded"
_LARGEST: Final = 4096
#: What a dashboard shows and offers; the gate decides again when it is done.
ABILITIES: Final = (
    *("overview", "jobs", "services", "workers", "clients", "nodes", "resources", "records"),
    *("keys", "submit", "cancel-others", "read-others", "events", "inventory", "files"),
    *("disconnect", "drain_worker", "approve_node", "approve_key", "revoke_key"),
)
_PATIENCE: Final = 10.0
#: A path of this broker with its query and fragment, in characters that no reader takes apart.
_OWN_PAGE: Final = re.compile(r"/(?![/\\])[\w\-./~%?&=#:+,;@!$'()*]{0,1000}", re.ASCII)
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
_PAGE: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<title>Log in · Dragoman</title><meta name="viewport" content="width=device-width">
<link rel="icon" href="/dashboard/icon.svg"><link rel="stylesheet" href="/dashboard/style.css">
</head><body><main class="login"><div class="panel"><h1 class="brand">
<img src="/dashboard/icon.svg" alt="" width="28" height="28">Dragoman</h1>
<form method="post" action="/login">%s%s<label>Token
<input type="password" name="token" autocomplete="current-password" required autofocus></label>
<button class="primary">Log in</button></form>%s</div></main></body></html>
"""
_WRONG: Final = "This token is not valid: it is unknown, expired or revoked."


class LoginRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body of a login."""

    token: str


class LoginRoutes:
    """The routes of browser sessions."""

    def __init__(self, checks: Checks | None, sessions: BrowserSessions) -> None:
        self._checks = checks
        self._sessions = sessions

    async def page(self, request: Request) -> Response:
        """GET /login: the form. `next` is the page of this broker to go to afterwards."""
        return login_page(self._checks, "", safe_page(request.query_params.get("next", "")))

    async def begin(self, request: Request) -> Response:
        """POST /login: a token, as form or JSON."""
        _same_origin(request)
        raw = await read_bytes(request, _LARGEST, _PATIENCE)
        is_form, page = media_type(request.headers) == _FORM, "/"
        if is_form:
            fields = parse_qs(raw.decode("utf-8", "replace"))
            token, page = fields.get("token", [""])[0], safe_page(fields.get("next", [""])[0])
        else:
            token = read_json(raw, LoginRequest).token
        key = self._key_of(token.strip())
        if key is None and is_form:
            return login_page(self._checks, _WRONG, page, 401)
        if key is None:
            raise Problem(401, "invalid token: unknown, expired or revoked")
        cookie = self._sessions.begin(key)
        made: Response = (
            RedirectResponse(page, 303) if is_form else answer({"csrf": csrf_of(cookie)}, 201)
        )
        set_session(made, request, cookie)
        return made

    def _key_of(self, token: str) -> str | None:
        if self._checks is None:
            return None
        return (self._checks.login or self._checks.check_token)(token)

    async def who(self, request: Request) -> Response:
        """GET /session: the principal, and the CSRF token of a browser session."""
        cookie = cookie_in(dict(request.scope["headers"]))
        session = self._sessions.find(cookie) if cookie else None
        csrf = {"csrf": csrf_of(cookie)} if session is not None else {}
        who = {"principal": CALLER.get().principal, "secured": self._checks is not None}
        return answer(who | csrf | {"may": self._may()})

    def _may(self) -> dict[str, bool]:
        """Return what the caller may look at and do, so that a dashboard shows only that."""
        key, checks = CALLER.get().key, self._checks
        return {what: checks is None or not checks.may_look(key, what) for what in ABILITIES}

    async def end(self, request: Request) -> Response:
        """POST /logout: end the session."""
        self._sessions.end(cookie_in(dict(request.scope["headers"])))
        made = Response(status_code=204)
        made.delete_cookie(COOKIE)
        return made


def safe_page(wanted: str) -> str:
    r"""Return a path of this broker to go to after the login; `/` for anything else.

    A browser reads `//host`, `/\host` and control characters before a slash as another site.
    """
    return wanted if _OWN_PAGE.fullmatch(wanted) else "/"


def login_page(checks: Checks | None, message: str, page: str, status: int = 200) -> Response:
    """Return the form, with a link to each issuer at which people log in."""
    field = f'<input type="hidden" name="next" value="{escape(page)}">' if page != "/" else ""
    wrong = f'<p class="wrong" role="alert">{escape(message)}</p>' if message else ""
    issuers = checks.federation.logins if checks and checks.federation else {}
    query = f"?{urlencode({'next': page})}" if page != "/" else ""
    links = "".join(
        f'<p><a class="issuer" href="/login/{name}{escape(query)}">Log in with {escape(label)}</a>'
        for name, label in issuers.items()
    )
    text = _PAGE % (field, wrong, links)
    return HTMLResponse(text, status, {"Content-Security-Policy": _POLICY})


def set_session(made: Response, request: Request, cookie: str) -> None:
    """Set the session cookie: other sites cannot make a browser send it, nor scripts read it."""
    made.set_cookie(
        COOKIE,
        cookie,
        max_age=int(LONGEST),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def _same_origin(request: Request) -> None:
    """Refuse a form of another site: it could log the browser in as another principal."""
    origin = request.headers.get("origin")
    if origin and origin.partition("://")[2] != request.headers.get("host"):
        raise Problem(403, f"the request comes from another site: {origin}", "csrf")
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise Problem(403, "the request comes from another site", "csrf")
