"""Login of browsers: a token is exchanged for a session cookie."""

from typing import Final
from urllib.parse import parse_qs

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from dragoman.web.identity import CALLER, COOKIE, LONGEST, BrowserSessions, Checks, cookie_in
from dragoman.web.job_documents import answer
from dragoman.web.problems import Problem
from dragoman.web.request_reading import media_type, read_bytes, read_json

_FORM: Final = "application/x-www-form-urlencoded"
_LARGEST: Final = 4096
_PATIENCE: Final = 10.0
_STYLE: Final = (
    "body{font:16px/1.5 system-ui;max-width:24rem;margin:15vh auto;padding:0 1rem}"
    "input,button{font:inherit;width:100%;box-sizing:border-box;margin:.5rem 0;padding:.5rem}"
)
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'"
)
_PAGE: Final = f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Dragoman</title>
<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>
<h1>Dragoman</h1><form method="post" action="/login"><label>Token
<input type="password" name="token" autocomplete="current-password" required autofocus></label>
<button>Log in</button></form></html>
"""


class LoginRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body of a login."""

    token: str


class LoginRoutes:
    """The routes of browser sessions."""

    def __init__(self, checks: Checks | None, sessions: BrowserSessions) -> None:
        self._checks = checks
        self._sessions = sessions

    async def page(self, request: Request) -> Response:
        """GET /login: the form."""
        return HTMLResponse(_PAGE, headers={"Content-Security-Policy": _POLICY})

    async def begin(self, request: Request) -> Response:
        """POST /login: a token, as form or JSON."""
        _same_origin(request)
        raw = await read_bytes(request, _LARGEST, _PATIENCE)
        is_form = media_type(request.headers) == _FORM
        if is_form:
            token = parse_qs(raw.decode("utf-8", "replace")).get("token", [""])[0]
        else:
            token = read_json(raw, LoginRequest).token
        key = self._checks.check_token(token.strip()) if self._checks else None
        if key is None:
            raise Problem(401, "invalid token: unknown, expired or revoked")
        cookie, session = self._sessions.begin(key)
        made: Response = (
            RedirectResponse("/", 303) if is_form else answer({"csrf": session.csrf}, 201)
        )
        # Other sites cannot make a browser send it, and scripts cannot read it.
        made.set_cookie(
            COOKIE,
            cookie,
            max_age=int(LONGEST),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return made

    async def who(self, request: Request) -> Response:
        """GET /session: the principal, and the CSRF token of a browser session."""
        cookie = cookie_in(dict(request.scope["headers"]))
        session = self._sessions.find(cookie) if cookie else None
        csrf = {"csrf": session.csrf} if session is not None else {}
        return answer({"principal": CALLER.get().principal, **csrf})

    async def end(self, request: Request) -> Response:
        """POST /logout: end the session."""
        self._sessions.end(cookie_in(dict(request.scope["headers"])))
        made = Response(status_code=204)
        made.delete_cookie(COOKIE)
        return made


def _same_origin(request: Request) -> None:
    """Refuse a form of another site: it could log the browser in as another principal."""
    origin = request.headers.get("origin")
    if origin and origin != "null" and origin.partition("://")[2] != request.headers.get("host"):
        raise Problem(403, f"the request comes from another site: {origin}", "csrf")
    if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        raise Problem(403, "the request comes from another site", "csrf")
