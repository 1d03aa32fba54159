"""Login with OpenID Connect: the authorization code flow with PKCE (RFC 7636).

The values of a flow are in a cookie of the browser that began it, so another browser cannot end
it. The broker keeps nothing of a flow.
"""

import base64
import hmac
import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dragoman.web.browser_sessions import BrowserSessions
from dragoman.web.identity import Checks, FederatedLogins
from dragoman.web.login import login_page, safe_page, set_session
from dragoman.web.problems import Problem

COOKIE: Final = "dragoman_login"
#: How long a person may take at the issuer, in seconds.
PATIENCE: Final = 600.0
_FOLDER: Final = "/login"


class LoginFlow(msgspec.Struct, frozen=True):
    """One login that was begun."""

    issuer: str
    redirect: str
    page: str
    began_at: float
    state: str
    nonce: str
    verifier: str


class OidcLoginRoutes:
    """The routes of logins at issuers."""

    def __init__(
        self,
        checks: Checks | None,
        sessions: BrowserSessions,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._checks = checks
        self._sessions = sessions
        self._now = now

    async def begin(self, request: Request) -> Response:
        """GET /login/{issuer}: go to the issuer."""
        issuers, name = self._issuers(request)
        base = issuers.address(name) or f"{request.url.scheme}://{request.url.netloc}"
        flow = LoginFlow(
            name,
            f"{base}{_FOLDER}/{name}/callback",
            safe_page(request.query_params.get("next", "")),
            self._now(),
            *(secrets.token_urlsafe(48) for _ in range(3)),
        )
        try:
            where = await issuers.login_url(
                name,
                flow.redirect,
                state=flow.state,
                nonce=flow.nonce,
                code_challenge=challenge_of(flow.verifier),
            )
        except (OSError, ValueError) as error:
            return self._refused(str(error), 503)
        made = RedirectResponse(where, 303)
        made.set_cookie(
            COOKIE,
            base64.urlsafe_b64encode(msgspec.json.encode(flow)).decode(),
            max_age=int(PATIENCE),
            path=_FOLDER,
            httponly=True,
            # Not `strict`: the issuer's page leads back here, and the browser must send it then.
            samesite="lax",
            secure=request.url.scheme == "https",
        )
        return made

    async def finish(self, request: Request) -> Response:
        """GET /login/{issuer}/callback: the browser comes back with a code."""
        issuers, name = self._issuers(request)
        flow, asked = self._flow(request), request.query_params
        if flow is None or flow.issuer != name or not _is_same(asked.get("state"), flow.state):
            return self._refused("This login was not begun here, or too long ago. Log in again.")
        if "code" not in asked:
            error = asked.get("error_description") or asked.get("error") or "no code"
            return self._refused(f"{issuers.logins[name]} refuses: {error[:200]}")
        try:
            key = await issuers.finish_login(
                name,
                code=asked["code"],
                redirect=flow.redirect,
                verifier=flow.verifier,
                nonce=flow.nonce,
                issuer=asked.get("iss", ""),
            )
        except ValueError as error:
            return self._refused(str(error))
        except OSError as error:
            return self._refused(str(error), 503)
        made = RedirectResponse(safe_page(flow.page), 303)
        set_session(made, request, self._sessions.begin(key))
        made.delete_cookie(COOKIE, path=_FOLDER)
        return made

    def _issuers(self, request: Request) -> tuple[FederatedLogins, str]:
        issuers = self._checks.federation if self._checks is not None else None
        name = request.path_params["issuer"]
        if issuers is None or name not in issuers.logins:
            raise Problem(404, f"there is no login with {name!r}")
        return issuers, name

    def _flow(self, request: Request) -> LoginFlow | None:
        try:
            raw = base64.urlsafe_b64decode(request.cookies.get(COOKIE, ""))
            flow = msgspec.json.decode(raw, type=LoginFlow)
        except (ValueError, msgspec.DecodeError):
            return None
        return flow if 0 <= self._now() - flow.began_at <= PATIENCE else None

    def _refused(self, reason: str, status: int = 401) -> Response:
        made = login_page(self._checks, reason, "/", status)
        made.delete_cookie(COOKIE, path=_FOLDER)
        return made


def challenge_of(verifier: str) -> str:
    """Return the code challenge of a verifier (S256)."""
    return base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _is_same(given: str | None, wanted: str) -> bool:
    return hmac.compare_digest((given or "").encode(), wanted.encode())
