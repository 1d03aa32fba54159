"""`docs/conformance.md` has a line for every rule of the five texts, and its tests exist."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "conformance.md").read_text()
TEXTS = {path.stem: path for path in (ROOT / "tests" / "vectors" / "texts").glob("*.txt")}
HEADINGS = {"nfp": "NFP", "memo01": "memo01", "dcp": "DCP", "zss": "ZSS", "ncl": "NCL"}
ROW = re.compile(r"^\| (?P<text>.+) \| (?P<status>held|not held) \| (?P<proof>.+) \|$")
TEST = re.compile(r"\[`(test_\w+)`\]\(\.\./(tests/[\w/]+\.py)\)")


def rows(dialect: str) -> list[re.Match[str]]:
    """Return the lines of a dialect's table."""
    section = next(s for s in PAGE.split("\n## ") if s.startswith(HEADINGS[dialect]))
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    found = [ROW.match(line) for line in lines if not line.startswith(("| text", "| ---"))]
    assert all(found), [line for line, row in zip(lines[2:], found, strict=True) if not row]
    return [row for row in found if row]


@cache
def functions(path: str) -> frozenset[str]:
    return frozenset(re.findall(r"^(?:async )?def (test_\w+)", (ROOT / path).read_text(), re.M))


def test_there_is_a_text_for_each_of_the_five_protocols() -> None:
    assert set(TEXTS) == set(HEADINGS)


@pytest.mark.parametrize("dialect", HEADINGS)
def test_every_rule_of_the_text_has_its_line(dialect: str) -> None:
    rules = [line.strip() for line in TEXTS[dialect].read_text().splitlines() if line.strip()]
    assert [row["text"].replace("\\|", "|") for row in rows(dialect)] == rules


@pytest.mark.parametrize("dialect", HEADINGS)
def test_what_is_held_names_tests_that_exist_and_what_is_not_has_a_reason(dialect: str) -> None:
    for row in rows(dialect):
        tests = TEST.findall(row["proof"])
        if row["status"] == "not held":
            assert len(row["proof"]) > 30, row["text"]
            continue
        assert tests, f"no test shows: {row['text']}"
        for name, path in tests:
            assert name in functions(path), f"{path} has no {name}"


@pytest.mark.parametrize("dialect", HEADINGS)
def test_the_counts_are_true(dialect: str) -> None:
    found = rows(dialect)
    held = sum(row["status"] == "held" for row in found)
    section = next(s for s in PAGE.split("\n## ") if s.startswith(HEADINGS[dialect]))
    assert f"{held} of {len(found)} held." in section
