"""Login of browsers: a token, or a name and a password, is exchanged for a session cookie."""

import re
from html import escape
from math import ceil
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
    *("put_file", "remove_file"),
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
%s%s</div></main></body></html>
"""
_TOKEN_FORM: Final = """<form method="post" action="/login">%s%s<label>Token
<input type="password" name="token" autocomplete="%s" required%s></label>
<button%s>Log in%s</button></form>"""
_PASSWORD_FORM: Final = """<form method="post" action="/login">%s%s<label>Name
<input name="name" autocomplete="username" maxlength="100" required autofocus></label>
<label>Password
<input type="password" name="password" autocomplete="current-password" required></label>
<button class="primary">Log in</button></form><p class="soft">Or with a token:</p>"""
_WRONG: Final = "This token is not valid: it is unknown, expired or revoked."
_WRONG_PASSWORD: Final = "The name or the password is wrong, or may not be used any more."


class LoginRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body of a login: a token, or a name and a password."""

    token: str = ""
    name: str = ""
    password: str = ""


class LoginRoutes:
    """The routes of browser sessions."""

    def __init__(self, checks: Checks | None, sessions: BrowserSessions) -> None:
        self._checks = checks
        self._sessions = sessions

    async def page(self, request: Request) -> Response:
        """GET /login: the form. `next` is the page of this broker to go to afterwards."""
        return login_page(self._checks, "", safe_page(request.query_params.get("next", "")))

    async def begin(self, request: Request) -> Response:
        """POST /login: a token, or a name and a password, as form or JSON."""
        _same_origin(request)
        raw = await read_bytes(request, _LARGEST, _PATIENCE)
        is_form, page = media_type(request.headers) == _FORM, "/"
        if is_form:
            fields = {
                name: each[0] for name, each in parse_qs(raw.decode(errors="replace")).items()
            }
            page = safe_page(fields.get("next", ""))
            wanted = LoginRequest(*(fields.get(f, "") for f in LoginRequest.__struct_fields__))
        else:
            wanted = read_json(raw, LoginRequest)
        try:
            key = await self._prove(wanted, request)
        except Problem as problem:
            if not is_form:
                raise
            return login_page(self._checks, problem.detail, page, problem.status, problem.headers)
        cookie = self._sessions.begin(key)
        made: Response = (
            RedirectResponse(page, 303) if is_form else answer({"csrf": csrf_of(cookie)}, 201)
        )
        set_session(made, request, cookie)
        return made

    async def _prove(self, wanted: LoginRequest, request: Request) -> str:
        """Return the key of a login. Raises Problem, in words for people."""
        checks = self._checks
        if wanted.name or wanted.password:
            if checks is None or checks.passwords is None:
                raise Problem(401, _WRONG_PASSWORD)
            address = request.client.host if request.client is not None else "somewhere"
            key, wait = await checks.passwords.check(wanted.name, wanted.password, address)
            if wait:
                again = str(ceil(wait))
                detail = f"Too many failed logins. Try again in {again} s."
                raise Problem(429, detail, "busy", headers={"Retry-After": again})
            if not key:
                raise Problem(401, _WRONG_PASSWORD)
            return key
        token = wanted.token.strip()
        found = None if checks is None else (checks.login or checks.check_token)(token)
        if found is None:
            raise Problem(401, _WRONG)
        return found

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


def login_page(
    checks: Checks | None,
    message: str,
    page: str,
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> Response:
    """Return the form, with a link to each issuer at which people log in."""
    field = f'<input type="hidden" name="next" value="{escape(page)}">' if page != "/" else ""
    wrong = f'<p class="wrong" role="alert">{escape(message)}</p>' if message else ""
    issuers = checks.federation.logins if checks and checks.federation else {}
    query = f"?{urlencode({'next': page})}" if page != "/" else ""
    links = "".join(
        f'<p><a class="issuer" href="/login/{name}{escape(query)}">Log in with {escape(label)}</a>'
        for name, label in issuers.items()
    )
    text = _PAGE % (_forms(checks, field, wrong), links)
    return HTMLResponse(text, status, {"Content-Security-Policy": _POLICY} | (headers or {}))


def _forms(checks: Checks | None, field: str, wrong: str) -> str:
    """Return the form for a token, after one for a password if anybody has one."""
    if checks is None or checks.passwords is None or not checks.passwords.is_on:
        return _TOKEN_FORM % (
            *(field, wrong, "current-password", " autofocus"),
            *(' class="primary"', ""),
        )
    token = _TOKEN_FORM % (field, "", "off", "", "", " with it")
    return _PASSWORD_FORM % (field, wrong) + token


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
