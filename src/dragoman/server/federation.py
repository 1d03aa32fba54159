"""Principals of other issuers: bearer tokens of services, and logins of people.

A bearer token is verified once, and again when it is used after a while. A login uses the
authorization code flow with PKCE; the web application holds the flow's values in a cookie.
"""

import asyncio
import base64
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

from dragoman.model.names import Principal
from dragoman.security.files import replace_file
from dragoman.security.issued_tokens import IssuedToken, TokenKeys, token_key
from dragoman.security.keys import KeyState
from dragoman.server.issuer_requests import Fetch, IssuerUnavailable, fetch_json
from dragoman.server.issuer_settings import IssuerSection
from dragoman.server.token_issuer import KEYS_FOR, LEEWAY, TokenIssuer, TokenRefused
from dragoman.transports.keyfiles import read_private

LOGINS_FILE: Final = "logins.json"
#: Longest token, in characters.
_LONGEST: Final = 16_384
#: Called with whether it was accepted, what happened, and the principal if it is known.
Report = Callable[[bool, str, Principal | None], None]


class Federation:
    """All issuers of one broker."""

    def __init__(
        self,
        issuers: dict[str, IssuerSection],
        keys: TokenKeys,
        now: Callable[[], float],
        report: Report,
        *,
        data: Path,
        fetch: Fetch = fetch_json,
    ) -> None:
        self._now = now
        self._keys = keys
        self._report = report
        self._issuers = {n: TokenIssuer(n, each, now, fetch) for n, each in issuers.items()}
        self._by_url = {each.section.issuer: each for each in self._issuers.values()}
        self._file = data / LOGINS_FILE
        self._logins = _read_logins(self._file)
        for key, login in self._logins.items():
            keys.add(key, login)
        #: Issuers at which people log in: their labels by name.
        self.logins = {n: each.label or n for n, each in issuers.items() if each.client}

    # --- bearer tokens ------------------------------------------------------------------------

    async def check(self, token: str) -> str | None:
        """Return the key of a valid bearer token; None if it is not valid.

        Raises IssuerUnavailable if the issuer's keys cannot be read.
        """
        url = _issuer_in(token)
        issuer = self._by_url.get(url) if url is not None else None
        if issuer is None or not issuer.section.audience:
            if url is not None:
                self._report(False, f"a token of another issuer: {url[:200]}", None)
            return None
        key, now = token_key(token), self._now()
        if self._is_fresh(key, now):
            return key
        try:
            claims = await issuer.verify(token, issuer.section.audience)
            found = issuer.identity_in(claims, float(claims["exp"]) + LEEWAY)
        except TokenRefused as refusal:
            self._report(False, str(refusal), None)
            return None
        self._accept(key, found, "token")
        return key if self._keys.state_of(key, now) is KeyState.ALLOWED else None

    def _is_fresh(self, key: str, now: float) -> bool:
        known = self._keys.find(key)
        is_fresh = known is not None and 0 <= now - known.checked_at < KEYS_FOR
        return is_fresh and self._keys.state_of(key, now) is KeyState.ALLOWED

    def _accept(self, key: str, found: IssuedToken, what: str) -> None:
        is_new = self._keys.find(key) is None
        self._keys.add(key, found)
        if is_new:
            groups = ", ".join(found.groups)[:300] or "none"
            self._report(True, f"{what} accepted; groups: {groups}", found.principal)

    # --- logins -------------------------------------------------------------------------------

    def _of_login(self, name: str) -> TokenIssuer:
        if name not in self.logins:
            raise TokenRefused(f"there is no login with {name}")
        return self._issuers[name]

    def address(self, name: str) -> str:
        """Return the configured address of the dashboard; empty: that of the request."""
        return self._of_login(name).section.address.rstrip("/")

    async def login_url(self, name: str, redirect: str, **flow: str) -> str:
        """Return where a browser goes to log in; `flow` has state, nonce and code_challenge."""
        issuer = self._of_login(name)
        where = await issuer.metadata("authorization_endpoint")
        if not where.startswith(("https://", "http://")):
            raise IssuerUnavailable(f"the metadata of {name} name no authorization_endpoint")
        asked = {
            "response_type": "code",
            "client_id": issuer.section.client,
            "redirect_uri": redirect,
            "scope": " ".join(issuer.section.scopes),
            "code_challenge_method": "S256",
            **flow,
        }
        return f"{where}{'&' if '?' in where else '?'}{urlencode(asked)}"

    async def finish_login(
        self, name: str, *, code: str, redirect: str, verifier: str, nonce: str, issuer: str
    ) -> str:
        """Exchange a code for a login; return its key. `issuer` is what the answer names, if any.

        Raises TokenRefused, IssuerRefusal or IssuerUnavailable.
        """
        at = self._of_login(name)
        try:
            if issuer and issuer != at.section.issuer:
                raise TokenRefused(f"login with {name}: the answer is of another issuer")
            answer = await self._exchange(at, code, redirect, verifier)
            token = str(answer.get("id_token", ""))
            claims = await self._claims(at, token, nonce, str(answer.get("access_token", "")))
            found = at.identity_in(claims, self._now() + at.section.login_hours * 3600)
        except ValueError as refusal:
            self._report(False, f"login: {refusal}", None)
            raise
        key = token_key(token)
        if self._keys.state_of(key, self._now()) is not KeyState.UNKNOWN:
            raise TokenRefused(f"login with {name}: this token was used before")
        self._accept(key, found, "login")
        if self._keys.state_of(key, self._now()) is not KeyState.ALLOWED:
            self._report(False, "login: this principal was revoked", found.principal)
            raise TokenRefused(f"{found.principal} was revoked")
        await self._save(key, found)
        return key

    async def _exchange(
        self, at: TokenIssuer, code: str, redirect: str, verifier: str
    ) -> dict[str, object]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect,
            "client_id": at.section.client,
            "code_verifier": verifier,
        }
        headers = {}
        if at.section.client_secret is not None:
            secret = read_private(at.section.client_secret).strip()
            pair = f"{quote(at.section.client, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return await at.fetch(await at.metadata("token_endpoint"), form, headers)

    async def _claims(
        self, at: TokenIssuer, token: str, nonce: str, access: str
    ) -> dict[str, object]:
        """Return the claims of an ID token, and those that only the issuer's userinfo has."""
        claims = await at.verify(token, at.section.client)
        if claims.get("nonce") != nonce:
            raise TokenRefused(f"login with {at.name}: the token is of another login")
        is_for_several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", at.section.client if not is_for_several else "") != at.section.client:
            raise TokenRefused(f"login with {at.name}: the token is for another client")
        where = await at.metadata("userinfo_endpoint")
        wanted = {at.section.name_claim, at.section.groups_claim}
        if access and where and not wanted <= claims.keys():
            more = await at.fetch(where, None, {"Authorization": f"Bearer {access}"})
            if more.get("sub") != claims.get("sub"):
                raise TokenRefused(f"login with {at.name}: userinfo is about another subject")
            claims = {**more, **claims}
        return claims

    async def _save(self, key: str, login: IssuedToken) -> None:
        """Write the logins that last: browser sessions survive a restart. No secret is in them."""
        now = self._now()
        lasting = {k: each for k, each in self._logins.items() if now < each.expires_at}
        self._logins = {**lasting, key: login}
        with contextlib.suppress(OSError):
            await asyncio.to_thread(replace_file, self._file, msgspec.json.encode(self._logins))


def _read_logins(file: Path) -> dict[str, IssuedToken]:
    """Read the logins of an earlier process. Without them, people log in again."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, IssuedToken])
    except (OSError, msgspec.DecodeError):
        return {}


def _issuer_in(token: str) -> str | None:
    """Return the issuer that a JWT names, unverified; None if the text is no JWT."""
    parts = token.split(".")
    if len(parts) != 3 or len(token) > _LONGEST or not token.isascii():
        return None
    try:
        raw = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        found = msgspec.json.decode(raw)
    except (ValueError, msgspec.DecodeError):
        return None
    issuer = found.get("iss") if isinstance(found, dict) else None
    return issuer if isinstance(issuer, str) else None
