"""An issuer of tokens in memory: its keys, its metadata, and tokens that it signs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

from dragoman.server.issuer_requests import IssuerUnavailable
from dragoman.server.issuer_settings import IssuerSection

ISSUER = "https://login.example/realm"
AUDIENCE = "dragoman"
NOW = 1_700_000_000.0


def section(**given: Any) -> IssuerSection:
    """Return the settings of the issuer."""
    return IssuerSection(**{"issuer": ISSUER, "audience": AUDIENCE, **given})


class MemoryIssuer:
    """Answers requests, and counts them."""

    def __init__(self) -> None:
        self.key = ECKey.generate_key("P-256", {"kid": "k1", "use": "sig", "alg": "ES256"})
        self.keys = [self.key]
        self.is_down = False
        self.asked: list[str] = []
        self.forms: list[Mapping[str, str]] = []
        self.answers: dict[str, dict[str, Any]] = {
            "/.well-known/openid-configuration": {
                "issuer": ISSUER,
                "jwks_uri": f"{ISSUER}/keys",
                "authorization_endpoint": f"{ISSUER}/auth",
                "token_endpoint": f"{ISSUER}/token",
                "userinfo_endpoint": f"{ISSUER}/me",
            }
        }

    def fetch(
        self,
        url: str,
        authority: Path | None,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Answer one request."""
        path = url.removeprefix(ISSUER)
        self.asked.append(path)
        if self.is_down:
            raise IssuerUnavailable("login.example does not answer")
        if form is not None:
            self.forms.append({**form, **(headers or {})})
        if path == "/keys":
            return dict(KeySet(list(self.keys)).as_dict())
        return self.answers[path]

    def token(self, header: Mapping[str, Any] | None = None, **claims: Any) -> str:
        """Return a token; a claim that is None is left out."""
        said = {"iss": ISSUER, "aud": AUDIENCE, "sub": "anna", "exp": NOW + 600, **claims}
        kept = {name: claim for name, claim in said.items() if claim is not None}
        return jwt.encode({"alg": "ES256", "kid": "k1", **(header or {})}, kept, self.key)
