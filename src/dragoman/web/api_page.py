"""The description of the API as one page for people: no script, nothing from elsewhere."""

import json
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from dragoman.web.api_schemas import OpenApiPart

PAGE_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_PAGE: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<title>HTTP API · Dragoman</title><meta name="viewport" content="width=device-width">
<link rel="icon" href="/dashboard/icon.svg"><link rel="stylesheet" href="/dashboard/style.css">
</head><body><header class="top"><a class="brand" href="/">
<img src="/dashboard/icon.svg" alt="" width="24" height="24">Dragoman</a></header>
<main class="api"><h1>HTTP API {version}</h1><p>{about}</p>
<p>For programs: <a href="/openapi.json">/openapi.json</a> (OpenAPI {openapi}).</p>
<h2>Operations</h2>{operations}<h2>Request bodies and documents</h2>{schemas}
</main></body></html>
"""


def api_page(document: OpenApiPart) -> str:
    """Return the page of a description."""
    info, components = document["info"], document["components"]["schemas"]
    return _PAGE.format(
        version=escape(info["version"]),
        about=escape(info["description"]),
        openapi=escape(document["openapi"]),
        operations="".join(_operations(document["paths"])),
        schemas="".join(_schema(name, each) for name, each in sorted(components.items())),
    )


def _operations(paths: OpenApiPart) -> Iterator[str]:
    for path, methods in paths.items():
        for method, operation in methods.items():
            title = f"<b>{method.upper()}</b> <code>{escape(path)}</code>"
            summary = f"<summary>{title} {escape(operation['summary'])}</summary>"
            yield f'<details class="panel">{summary}{_details(operation)}</details>'


def _details(operation: OpenApiPart) -> str:
    parameters = [
        (escape(each["name"]), each["in"], _type(each["schema"]), escape(each["description"]))
        for each in operation.get("parameters", ())
    ]
    bodies = [
        (escape(media), _type(content["schema"]))
        for media, content in operation.get("requestBody", {}).get("content", {}).items()
    ]
    responses = [
        (status, escape(each.get("description", "A problem document")), _contents(each))
        for status, each in operation["responses"].items()
    ]
    return (
        _table(("parameter", "in", "type", "meaning"), parameters)
        + _table(("body", "type"), bodies)
        + _table(("status", "meaning", "content"), responses)
    )


def _contents(response: OpenApiPart) -> str:
    if "$ref" in response:
        return _link("Problem")
    contents = response.get("content", {}).items()
    return ", ".join(f"{escape(media)} {_type(each['schema'])}" for media, each in contents)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    titles = "".join(f'<th scope="col">{title}</th>' for title in head)
    # Cells are HTML: their texts are escaped where they are made.
    lines = "".join("<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in rows)
    table = f"<table><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table>"
    return f'<div class="wide">{table}</div>'


def _type(schema: OpenApiPart) -> str:
    """Return a schema in a few words; a named one as a link."""
    if "$ref" in schema:
        name, _, member = schema["$ref"].removeprefix("#/components/schemas/").partition("/")
        return _link(name, member.rpartition("/")[2])
    if "items" in schema:
        return f"list of {_type(schema['items'])}"
    kinds = schema.get("type", "")
    words = [kinds if isinstance(kinds, str) else " or ".join(kinds)]
    words += [f"{word} {schema[key]}" for key, word in _BOUNDS.items() if key in schema]
    if "enum" in schema:
        words = ["one of " + ", ".join(map(str, schema["enum"]))]
    return escape(", ".join(word for word in words if word)) or "any value"


_BOUNDS: Final = {
    "minimum": "from",
    "exclusiveMinimum": "above",
    "maximum": "to",
    "maxLength": "at most this long:",
    "format": "format",
    "pattern": "pattern",
    "default": "default",
}


def _link(name: str, member: str = "") -> str:
    text = f"{name}.{member}" if member else name
    return f'<a href="#{escape(name)}">{escape(text)}</a>'


def _schema(name: str, schema: OpenApiPart) -> str:
    text = escape(json.dumps(schema, indent=2))
    summary = f"<summary><code>{escape(name)}</code></summary>"
    return f'<details class="panel" id="{escape(name)}">{summary}<pre>{text}</pre></details>'
