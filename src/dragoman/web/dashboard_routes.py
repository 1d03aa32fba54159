"""The dashboard's own files: one page, its style sheet and its modules. They hold no data.

The files are part of the package and served as they are. The page's policy allows nothing inline
and nothing from elsewhere.
"""

from hashlib import sha256
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from dragoman.model.value import value
from dragoman.web.problems import Problem

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_PAGE: Final = "index.html"
_MEDIA_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@value
class StaticFile:
    """One file in memory, and the tag of its content."""

    content: bytes
    media_type: str
    tag: str


def read_files() -> dict[str, StaticFile]:
    """Read the files of the package."""
    found = {}
    for each in files("dragoman.web").joinpath("dashboard").iterdir():
        suffix = each.name[each.name.rfind(".") :]
        if suffix in _MEDIA_TYPES:
            content = each.read_bytes()
            tag = f'"{sha256(content).hexdigest()[:16]}"'
            found[each.name] = StaticFile(content, _MEDIA_TYPES[suffix], tag)
    return found


class DashboardRoutes:
    """The routes of the files. They need no login: the data does."""

    def __init__(self) -> None:
        self._files = read_files()

    async def page(self, request: Request) -> Response:
        """GET /: the page."""
        return self._respond(request, _PAGE)

    async def file(self, request: Request) -> Response:
        """GET /dashboard/{name}: a file of the page."""
        return self._respond(request, request.path_params["name"])

    def _respond(self, request: Request, name: str) -> Response:
        found = self._files.get(name)
        if found is None:
            raise Problem(404, f"the dashboard has no file {name}")
        # Browsers ask each time, and get the file again only if an upgrade changed it.
        headers = {
            "ETag": found.tag,
            "Cache-Control": "no-cache",
            "Content-Security-Policy": POLICY,
            "Cross-Origin-Opener-Policy": "same-origin",
        }
        if request.headers.get("if-none-match") == found.tag:
            return Response(status_code=304, headers=headers)
        return Response(found.content, media_type=found.media_type, headers=headers)
