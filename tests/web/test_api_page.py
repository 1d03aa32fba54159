"""The page of the API: readable without a network, without a script, and complete."""

import re
from html.parser import HTMLParser

from dragoman.web.api_page import PAGE_POLICY, api_page
from dragoman.web.openapi import describe


class Elements(HTMLParser):
    """The tags of a page, and what they link to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: set[str] = set()
        self.ids: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links |= {text or "" for name, text in attrs if name in ("href", "src")}
        self.ids |= {text or "" for name, text in attrs if name == "id"}


def test_it_has_every_operation_and_needs_nothing_from_elsewhere() -> None:
    document = describe()
    page = api_page(document)
    elements = Elements(page)
    assert not elements.tags & {"script", "style", "iframe"}
    assert all(link.startswith(("/", "#")) for link in elements.links)
    assert "script-src" not in PAGE_POLICY
    for path, methods in document["paths"].items():
        for method in methods:
            assert f"<b>{method.upper()}</b> <code>{path}</code>" in page


def test_every_name_of_a_schema_leads_to_it() -> None:
    elements = Elements(api_page(describe()))
    anchors = {link[1:] for link in elements.links if link.startswith("#")}
    assert {"JobRequest", "JobStatus", "Problem"} <= anchors <= elements.ids


def test_texts_are_escaped() -> None:
    document = describe()
    document["paths"] = {
        "/<b>": {"get": {"summary": "<script>", "responses": {"200": {"description": "<i>"}}}}
    }
    page = api_page(document)
    assert not re.search("<script>|<i>|/<b>", page)


def test_bounds_are_said_in_words() -> None:
    page = api_page(describe())
    assert "integer, from 1, to 10000, default 100" in page
    assert "list of string, at most this long: 256" in page
