"""A real OpenID Connect provider as a process, and a browser without a screen."""

import base64
import json
import re
import subprocess
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlencode, urljoin

from tests.interop.zss_peers import NODE
from tests.web.caller import HttpResponse

AUDIENCE: Final = "dragoman"
_ACTION: Final = re.compile(r'<form[^>]*action="([^"]+)"')
_FIELD: Final = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)"')


class OidcProvider:
    """Runs `oidc-provider` while the `with` block lasts."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            ["node", "oidc-provider.mjs"],
            cwd=NODE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.issuer: str = json.loads(self._process.stdout.readline())["issuer"]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def section(self, **given: Any) -> dict[str, Any]:
        """Return the settings of this issuer."""
        said = {"issuer": self.issuer, "audience": AUDIENCE, "client": "dashboard"}
        return {**said, "scopes": ("openid", "groups"), "label": "Corp & Co", **given}

    def token(self, client: str = "robot", resource: str = "urn:dragoman") -> str:
        """Return an access token that a service gets with its own credentials."""
        form = {"grant_type": "client_credentials", "resource": resource, "scope": "api"}
        pair = base64.b64encode(f"{client}:{client}-password-of-the-tests".encode()).decode()
        request = urllib.request.Request(
            f"{self.issuer}/token", urlencode(form).encode(), {"Authorization": f"Basic {pair}"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return str(json.load(answer)["access_token"])


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any) -> None:
        return None


class ScriptedBrowser:
    """Keeps cookies and follows redirects, one at a time."""

    def __init__(self) -> None:
        self.cookies = CookieJar()
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPCookieProcessor(self.cookies), _NoRedirect
        )
        self.url = ""
        #: Where each redirect led.
        self.visited: list[str] = []

    def visit(self, url: str, form: dict[str, str] | None = None, **headers: str) -> HttpResponse:
        """Make one request; do not follow a redirect."""
        self.url = url
        raw = urlencode(form).encode() if form is not None else None
        try:
            with self._opener.open(urllib.request.Request(url, raw, headers), timeout=30) as found:
                return HttpResponse(found.status, dict(found.headers), found.read())
        except urllib.error.HTTPError as error:
            with error:
                return HttpResponse(error.code, dict(error.headers), error.read())

    def follow(self, found: HttpResponse, until: str = "\0") -> HttpResponse:
        """Follow redirects, at most to the first whose address has a text in it."""
        while found.status in (302, 303):
            self.visited.append(urljoin(self.url, found.headers["location"]))
            if until in self.visited[-1]:
                return found
            found = self.visit(self.visited[-1])
        return found

    def submit(self, page: HttpResponse, **fields: str) -> HttpResponse:
        """Submit the form of a page of the provider."""
        text = page.body.decode()
        (action,) = _ACTION.findall(text)
        return self.visit(urljoin(self.url, action), dict(_FIELD.findall(text)) | fields)

    def log_in_as(self, name: str, start: str, until: str = "\0") -> HttpResponse:
        """Log in at the provider, agree, and come back."""
        page = self.follow(self.visit(start), until)
        page = self.follow(self.submit(page, login=name, password="any"), until)
        return self.follow(self.submit(page), until)
