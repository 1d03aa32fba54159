"""The documents are true: programs run, links have targets, tables are complete."""

import json
import re
import typing
from pathlib import Path

import pytest
from tests.interop.matrix_table import PAIRS, UPSTREAM_PAIRS, expected, table

from dragoman.core.effects import Effect
from dragoman.core.events import Event
from dragoman.pipeline.anomalies import FLOORS
from dragoman.pipeline.tables import TABLES

ROOT = Path(__file__).resolve().parents[1]
HOWTO = ROOT / "docs" / "howto-put-io-around-the-core.md"
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.md")]


def programs(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def test_the_program_in_the_how_to_runs() -> None:
    (program,) = programs(HOWTO)
    names: dict[str, object] = {}
    exec(compile(program, HOWTO.name, "exec"), names)
    assert names["final"]


@pytest.mark.parametrize(
    "name", [cls.__name__ for cls in (*typing.get_args(Event), *typing.get_args(Effect))]
)
def test_the_how_to_has_a_line_for_every_event_and_effect(name: str) -> None:
    assert f"\n| `{name}` |" in HOWTO.read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_inside_the_project_have_targets(page: Path) -> None:
    targets = re.findall(r"\]\((?!\w+:)([^)#\s]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize(("pairs", "count"), [(PAIRS, 42), (UPSTREAM_PAIRS, 48)])
def test_the_pairs_are_shown_as_the_matrix_has_them(
    pairs: list[tuple[str, str]], count: int
) -> None:
    assert len(set(pairs)) == count
    page = (ROOT / "docs" / "matrix.md").read_text()
    assert table({pair: expected(*pair) for pair in pairs}, pairs) in page


def test_every_case_that_a_dialect_cannot_express_is_explained() -> None:
    """A case that a dialect cannot express is documented, not omitted."""
    page = (ROOT / "docs" / "matrix.md").read_text()
    told = page.partition("*No word*")[2]
    for caller, worker in [*PAIRS, *UPSTREAM_PAIRS]:
        for case, cell in expected(caller, worker).items():
            who = caller if case == "cancel" else worker
            assert cell != "no word" or re.search(rf"^\| .*{case}.*{who}.* \|", told, re.M)


def test_the_sample_row_of_every_table_has_its_columns() -> None:
    page = (ROOT / "docs" / "pipeline.md").read_text()
    samples = re.findall(r"^\*\*(\w+)\*\*:.*?^```json\n(.*?)\n```$", page, re.M | re.DOTALL)
    shown = {name: list(json.loads(row)) for name, row in samples}
    assert shown == {name: schema.fieldNames() for name, schema in TABLES.items()}


def test_the_floors_of_anomalies_are_on_the_page() -> None:
    page = (ROOT / "docs" / "pipeline.md").read_text()
    assert [m for m, floor in FLOORS.items() if f"{m} {floor:,.0f}" not in page] == []


def _in_words(source: str) -> str:
    """Join the pieces of texts that go over several lines, and drop backticks."""
    return re.sub(r'"\s*\n\s*f?"|`', "", source)


def test_every_error_text_of_the_troubleshooting_page_is_one_of_ours() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    source = "\n".join(_in_words(p.read_text()) for p in (ROOT / "src").rglob("*.py"))
    texts = [
        text
        for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
        for text in re.findall(r"`([^`]+)`", row)
    ]
    assert len(texts) > 25
    unknown = []
    for text in texts:
        pieces = re.split(r"\.\.\.|\b[A-Z]{4,}\b|\b(?:dcp|http|ZeroMQ)\b|[\d;()]+", text)
        longest = max(pieces, key=len).strip(" :,")
        if longest not in source:
            unknown.append(longest)
    assert unknown == []


def test_every_command_that_a_page_names_exists() -> None:
    import typer.main

    from dragoman.cli.main import app

    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    wrong = []
    for page in PAGES:
        for group, verb in re.findall(r"`dragoman ([a-z][a-z-]*)(?: ([a-z-]+))?", page.read_text()):
            below = getattr(commands.get(group), "commands", None)
            if group not in commands or (below is not None and verb and verb not in below):
                wrong.append(f"{page.name}: dragoman {group} {verb}")
    assert wrong == []
