"""One issuer of tokens: its metadata, its keys, and the check of its tokens.

joserfc checks signatures and times. Only signatures by public keys count, and only by keys of the
issuer's own set: what a token says about its key beyond the key's id is not used.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from dragoman.model.names import Principal
from dragoman.security.issued_tokens import IssuedToken
from dragoman.server.issuer_requests import Fetch, IssuerUnavailable, fetch_json
from dragoman.server.issuer_settings import IssuerSection

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "Ed25519", "EdDSA"),
)
#: Seconds that clocks may differ.
LEEWAY: Final = 30
#: Seconds after which keys are read again: a key that the issuer removed ends so.
KEYS_FOR: Final = 300.0
#: Shortest time between two reads because of unknown key ids, and between two failed reads.
PAUSE: Final = 10.0
#: Requests to the issuer at a time, and those that may wait for their turn. Strangers cause them
#: too, and each takes a thread while the issuer is silent.
_AT_ONCE: Final = 2
_MOST_WAITING: Final = 50
_MOST_GROUPS: Final = 1000
#: Printable ASCII without spaces and wildcards: no name looks like another one.
_NAME: Final = re.compile(r"[!-)+->@-Z\\^-~]{1,200}")


Found = TypeVar("Found")


class TokenRefused(ValueError):
    """A token is not valid here; the message gives the reason and never the token."""


class TokenIssuer:
    """Verifies the tokens of one issuer."""

    def __init__(
        self,
        name: str,
        section: IssuerSection,
        now: Callable[[], float],
        fetch: Fetch = fetch_json,
    ) -> None:
        self.name = name
        self.section = section
        self._now = now
        self._fetch = fetch
        self._metadata = _Attempt[dict[str, Any]](now)
        self._keys = _Attempt[KeySet](now)
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0

    async def metadata(self, member: str) -> str:
        """Return a URL of the issuer's metadata; empty if it has none."""
        found = await self._metadata.get(self._read_metadata, is_due=False)
        value = found.get(member, "")
        return value if isinstance(value, str) else ""

    async def _read_metadata(self) -> dict[str, Any]:
        url = f"{self.section.issuer.rstrip('/')}/.well-known/openid-configuration"
        found = await self.fetch(url)
        if found.get("issuer") != self.section.issuer:
            raise IssuerUnavailable(
                f"{url} is about another issuer, {found.get('issuer')!r}; set `issuer` to it"
            )
        return found

    async def fetch(
        self,
        url: str,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Make a request to the issuer, in a thread."""
        if self._waiting >= _MOST_WAITING:
            raise IssuerUnavailable(f"{self._waiting} requests wait for {self.name}; try again")
        self._waiting += 1
        try:
            async with self._turns:
                authority = self.section.authority
                return await asyncio.to_thread(self._fetch, url, authority, form, headers)
        finally:
            self._waiting -= 1

    # --- tokens -------------------------------------------------------------------------------

    async def verify(self, token: str, audience: str) -> dict[str, Any]:
        """Return the claims of a token for an audience. Raises TokenRefused, IssuerUnavailable."""
        keys = await self._key_set()
        try:
            try:
                claims = jwt.decode(token, keys, algorithms=ALGORITHMS).claims
            except InvalidKeyIdError:
                # The issuer may have a new key.
                keys = await self._key_set(has_changed=True)
                claims = jwt.decode(token, keys, algorithms=ALGORITHMS).claims
            self._check_claims(claims, audience)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise TokenRefused(f"token of {self.name}: {_words(error)}") from None
        return claims

    def _check_claims(self, claims: dict[str, Any], audience: str) -> None:
        jwt.JWTClaimsRegistry(
            now=int(self._now()),
            leeway=LEEWAY,
            iss={"essential": True, "value": self.section.issuer},
            aud={"essential": True, "value": audience},
            exp={"essential": True},
        ).validate(claims)

    def identity_in(self, claims: Mapping[str, object], expires_at: float) -> IssuedToken:
        """Return the principal and the groups that claims name. Raises TokenRefused."""
        section = self.section
        name = _claim(claims, section.name_claim)
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            what = f"its claim {section.name_claim} is no name of printable ASCII"
            raise TokenRefused(f"token of {self.name}: {what}")
        if not any(fnmatchcase(name, glob) for glob in section.names):
            raise TokenRefused(f"token of {self.name}: {name} is not one of {section.names}")
        groups = _groups(_claim(claims, section.groups_claim))
        if groups is None:
            what = f"its claim {section.groups_claim} is no list of at most {_MOST_GROUPS} groups"
            raise TokenRefused(f"token of {self.name}: {what}")
        known = tuple(f"{self.name}:{group}" for group in groups)
        principal = Principal(f"{self.name}:{name}")
        return IssuedToken(principal, known, expires_at, self._now())

    # --- keys ---------------------------------------------------------------------------------

    async def _key_set(self, has_changed: bool = False) -> KeySet:
        """Return the issuer's keys; read them if they are old, or if a token names another."""
        is_due = has_changed or not 0 <= self._now() - self._keys.read_at < KEYS_FOR
        return await self._keys.get(self._read_keys, is_due=is_due)

    async def _read_keys(self) -> KeySet:
        try:
            return KeySet.import_key_set(await self._read_key_set())
        except (OSError, JoseError, ValueError, TypeError, KeyError) as error:
            raise IssuerUnavailable(f"no keys of {self.name}: {error}") from None

    async def _read_key_set(self) -> Any:
        where = self.section.keys or await self.metadata("jwks_uri")
        if not where:
            raise IssuerUnavailable(f"the metadata of {self.name} name no key set")
        if where.startswith(("http://", "https://")):
            return await self.fetch(where)
        raw = await asyncio.to_thread(Path(where).read_bytes)
        return msgspec.json.decode(raw)


class _Attempt(Generic[Found]):
    """Something of the issuer: read when it is needed, and not again soon after an attempt."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._found: Found | None = None
        self._error = IssuerUnavailable("not read yet")
        self._tried_at = self.read_at = float("-inf")
        self._reading = asyncio.Lock()

    async def get(self, read: Callable[[], Awaitable[Found]], *, is_due: bool) -> Found:
        """Return what was read; the last good state stays if the issuer does not answer."""
        async with self._reading:
            now = self._now()
            if (self._found is None or is_due) and not 0 <= now - self._tried_at < PAUSE:
                self._tried_at = now
                try:
                    self._found, self.read_at = await read(), now
                except IssuerUnavailable as error:
                    self._error = error
            if self._found is None:
                raise IssuerUnavailable(str(self._error))
            return self._found


def _claim(claims: Mapping[str, object], path: str) -> object:
    """Return a claim; a name with dots may be one claim, as in URLs, or lead into objects."""
    if path in claims:
        return claims[path]
    found: object = claims
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _groups(claim: object) -> list[str] | None:
    """Return the groups in a claim: a list, or a text with spaces; None if it is neither."""
    found = claim.split() if isinstance(claim, str) else claim
    if found is None:
        return []
    if not isinstance(found, list) or len(found) > _MOST_GROUPS:
        return None
    return [each for each in found if isinstance(each, str) and each.isprintable()]


def _words(error: Exception) -> str:
    """Return the reason of a library error."""
    text = getattr(error, "description", "") or str(error) or type(error).__name__
    return text[:200]
