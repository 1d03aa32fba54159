"""The pictures of the pages are those of the script, and every page that has one names it."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from scripts.pictures import FOLDER, PICTURES

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_as_the_script_draws_it(name: str) -> None:
    text = PICTURES[name]().svg()
    assert (FOLDER / f"{name}.svg").read_text() == text
    assert ElementTree.fromstring(text).tag.endswith("svg")


def test_every_picture_is_on_a_page() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    text = "".join(page.read_text() for page in pages)
    assert [name for name in PICTURES if f"images/{name}.svg)" not in text] == []


def test_no_page_needs_a_script_for_its_pictures() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    assert [str(page) for page in pages if "```mermaid" in page.read_text()] == []
