"""What the terminal view reads and does: a few requests to the broker's HTTP link.

They are reads of the running broker, not jobs, so that watching leaves no records.
"""

import json
import ssl
import urllib.error
import urllib.request
from typing import Any, Final
from urllib.parse import quote

from dragoman.sdk.credentials import Credentials
from dragoman.sdk.errors import Refused, Unreachable

_TIMEOUT: Final = 5.0
#: Rows of each list.
MOST_ROWS: Final = 200


class TopSource:
    """One broker, by its HTTP URL."""

    def __init__(self, url: str, credentials: Credentials) -> None:
        self.url = url.rstrip("/")
        self._headers = {"Accept": "application/json", "Dragoman-Client": "top"}
        if credentials.token:
            self._headers["Authorization"] = f"Bearer {credentials.token}"
        self._tls = _context(credentials) if url.startswith("https:") else None

    def overview(self) -> dict[str, Any]:
        """Return the broker at a glance, with the last hour."""
        return self._ask("GET", "/v1/overview")

    def rows(self, view: str) -> list[dict[str, Any]]:
        """Return the rows of a view: services, workers or jobs."""
        if view == "jobs":
            found = self._ask("GET", f"/v1/history/jobs?limit={MOST_ROWS}")["rows"]
        elif view == "services":
            found = self._ask("GET", "/v1/overview/services")["services"]
        else:
            found = self._ask("GET", f"/v1/workers?limit={MOST_ROWS}")["workers"]
        return list(found[:MOST_ROWS])

    def why(self, job: str) -> dict[str, Any]:
        """Explain the state of a job."""
        return self._ask("GET", f"/v1/jobs/{quote(job, safe='')}/why")

    def records(self, job: str) -> list[dict[str, Any]]:
        """Return every record of a job."""
        found = self._ask("GET", f"/v1/jobs/{quote(job, safe='')}/records")
        return list(found["records"])

    def cancel(self, job: str) -> dict[str, Any]:
        """Cancel a job; say whether its worker confirmed."""
        return self._ask("DELETE", f"/v1/jobs/{quote(job, safe='')}")

    def _ask(self, method: str, path: str) -> dict[str, Any]:
        request = urllib.request.Request(self.url + path, None, self._headers, method=method)
        try:
            # `http_url` of the command lets only http and https through.
            with urllib.request.urlopen(  # nosec B310
                request, timeout=_TIMEOUT, context=self._tls
            ) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(_detail(error)) from None
        except OSError as error:
            raise Unreachable(f"{self.url} does not answer: {error}") from None


def _detail(error: urllib.error.HTTPError) -> str:
    """Return what a problem document says."""
    try:
        return str(json.load(error)["detail"])
    except (ValueError, KeyError, TypeError):
        return f"the broker answered {error.code}"


def _context(credentials: Credentials) -> ssl.SSLContext:
    authority = credentials.authority or None
    return ssl.create_default_context(cadata=authority)
