"""Each promise names at least one test, and each named test exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "guarantees.md").read_text()
LINK = re.compile(r"- \[`(tests/[\w/]+\.py)::(test_\w+)`\]\(\.\./(tests/[\w/]+\.py)\)")


def promises(text: str) -> dict[int, list[tuple[str, str, str]]]:
    parts = re.split(r"^## (\d+)\. ", text, flags=re.MULTILINE)[1:]
    return {int(n): LINK.findall(body) for n, body in zip(parts[::2], parts[1::2], strict=True)}


def broken(links: list[tuple[str, str, str]]) -> list[str]:
    found = []
    for shown, name, path in links:
        file = ROOT / path
        if shown != path or not file.is_file():
            found.append(f"{shown} is not there")
        elif f"def {name}(" not in file.read_text():
            found.append(f"{path} has no {name}")
    return found


def test_there_are_twelve_promises() -> None:
    assert sorted(promises(TEXT)) == list(range(1, 13))


@pytest.mark.parametrize("number", range(1, 13))
def test_a_promise_has_tests_that_exist(number: int) -> None:
    links = promises(TEXT)[number]
    assert len(links) >= 2
    assert broken(links) == []


def test_every_listed_line_is_read_as_a_link() -> None:
    listed = [line for line in TEXT.splitlines() if line.startswith("- ")]
    assert len(listed) == sum(len(links) for links in promises(TEXT).values())


def test_a_broken_link_is_noticed() -> None:
    assert broken([("tests/no.py", "test_x", "tests/no.py")])
    assert broken([("tests/test_guarantees.py", "test_nowhere", "tests/test_guarantees.py")])
