"""Requests on a shared listener reach the web application of their namespace, and no other."""

import asyncio
from typing import Any

import pytest

from dragoman.web.browser_sessions import BrowserSessions
from dragoman.web.identity import PROVEN_KEYS, ProvenKeys
from dragoman.web.namespace_requests import NamespaceMiddleware


class RecordingApp:
    """Remembers the requests it got."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.paths.append(scope["path"])


class TwoNamespaces:
    """The token `acme-token` and the key `acme-key` are those of the tenant."""

    def __init__(self, tenant: RecordingApp) -> None:
        self._tenant = tenant

    def app_of_key(self, key: str) -> Any:
        return self._tenant if key == "acme-key" else None

    def app_of_token(self, secret: str) -> Any:
        return self._tenant if secret == "acme-token" else None


@pytest.mark.parametrize(
    ("path", "headers", "certificate", "is_for_tenant"),
    [
        ("/v1/jobs", {"authorization": "Bearer acme-token"}, "", True),
        ("/v1/jobs", {"authorization": "bearer acme-token"}, "", True),
        ("/v1/jobs", {"authorization": "Basic acme-token"}, "acme-key", False),
        # As for the key of a request: a token counts before the certificate.
        ("/v1/jobs", {"authorization": "Bearer other"}, "acme-key", False),
        ("/v1/jobs", {"cookie": "dragoman_session=acme"}, "", True),
        ("/v1/jobs", {"cookie": "dragoman_session=own"}, "acme-key", False),
        ("/v1/jobs", {"cookie": "dragoman_session=ended"}, "acme-key", True),
        ("/v1/jobs", {}, "acme-key", True),
        ("/v1/jobs", {}, "", False),
        ("/login", {"authorization": "Bearer acme-token"}, "", False),
        ("/dashboard/style.css", {}, "acme-key", False),
    ],
)
def test_a_request_goes_to_the_namespace_of_its_key(
    path: str, headers: dict[str, str], certificate: str, is_for_tenant: bool
) -> None:
    default, tenant = RecordingApp(), RecordingApp()
    sessions = BrowserSessions(lambda: 1000.0)
    cookies = {"acme": sessions.begin("acme-key"), "own": sessions.begin("own-key")}
    given = headers.get("cookie", "").partition("=")[2]
    if given in cookies:
        headers = {"cookie": f"dragoman_session={cookies[given]}"}
    scope = {
        "type": "http",
        "path": path,
        "headers": [(name.encode(), text.encode()) for name, text in headers.items()],
        "state": {PROVEN_KEYS: ProvenKeys(certificate)},
    }
    app = NamespaceMiddleware(default, TwoNamespaces(tenant), sessions)
    asyncio.run(app(scope, None, None))  # type: ignore[arg-type]
    assert (tenant.paths, default.paths) == (([path], []) if is_for_tenant else ([], [path]))
