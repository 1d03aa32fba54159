"""The settings of one issuer of tokens: an OpenID Connect provider, or another signer of JWTs."""

import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from dragoman.security.issued_tokens import SCHEME
from dragoman.security.keys import SCHEMES
from dragoman.security.passwords import PASSWORD_SCHEME
from dragoman.server.settings_section import SettingsSection
from dragoman.transports.base import is_loopback

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,30}")
#: Names that begin the principal of a key.
_TAKEN: Final = frozenset({*SCHEMES, SCHEME, PASSWORD_SCHEME})


class IssuerSection(SettingsSection):
    """An issuer of tokens; see `docs/security-login.md`."""

    issuer: str = Field(
        default="",
        description="The issuer as its tokens name it (`iss`): an https URL. Its metadata is read "
        "from `/.well-known/openid-configuration` below it.",
    )
    audience: str = Field(
        default="",
        description="The audience (`aud`) that a bearer token must name; empty: no bearer tokens.",
    )
    keys: str = Field(
        default="",
        description="The key set (JWKS) of the issuer: an https URL or a file; by default the one "
        "that its metadata names.",
    )
    authority: Path | None = Field(
        default=None,
        description="The authority of the issuer's certificate (PEM); by default the system's.",
    )
    name_claim: str = Field(
        default="sub",
        description="The claim that names the principal. Choose one that users cannot change.",
    )
    groups_claim: str = Field(
        default="groups",
        description="The claim that lists the groups; dots lead into objects, as in "
        "`realm_access.roles`.",
    )
    names: tuple[str, ...] = Field(
        default=("*",), description="Globs of the names that are admitted."
    )
    client: str = Field(
        default="",
        description="The id of this broker at the issuer (`client_id`), for people who log in at "
        "the dashboard; empty: no login.",
    )
    client_secret: Path | None = Field(
        default=None, description="A file with the client's secret, if it has one."
    )
    scopes: tuple[str, ...] = Field(
        default=("openid", "profile"), description="The scopes that a login asks for."
    )
    address: str = Field(
        default="",
        description="The address of the dashboard in browsers, such as "
        "`https://broker.example:8420`; by default that of the request.",
    )
    label: str = Field(default="", description="The name of the issuer on the login page.")
    login_hours: float = Field(
        default=8.0, gt=0, le=12, description="Hours after which a person must log in again."
    )

    @field_validator("issuer", "address")
    @classmethod
    def _is_url(cls, url: str) -> str:
        return check_url(url) if url else url

    @model_validator(mode="after")
    def _is_of_use(self) -> "IssuerSection":
        if not self.issuer:
            raise ValueError("issuer is missing")
        if not self.audience and not self.client:
            raise ValueError("set audience (bearer tokens), client (login), or both")
        if self.client and "openid" not in self.scopes:
            raise ValueError("scopes: a login needs the scope openid")
        if self.keys.startswith("http"):
            check_url(self.keys)
        return self


def check_issuer_names(issuers: dict[str, IssuerSection]) -> dict[str, IssuerSection]:
    """Check the names of issuers: a principal begins with one. Raises ValueError."""
    for name in issuers:
        if not _NAME.fullmatch(name) or name in _TAKEN:
            raise ValueError(
                f"{name!r} is no name for an issuer: small letters, digits and - (at most 31), "
                f"and not one of {', '.join(sorted(_TAKEN))}"
            )
    return issuers


def check_url(url: str) -> str:
    """Return an https URL without a slash at its end; http only for this machine."""
    parts = urlsplit(url)
    is_local = parts.scheme == "http" and is_loopback(parts.hostname or "")
    if not parts.hostname or not (parts.scheme == "https" or is_local):
        raise ValueError(f"{url!r} is no https URL")
    if parts.query or parts.fragment or parts.username:
        raise ValueError(f"{url!r}: no user, query or fragment here")
    return url
