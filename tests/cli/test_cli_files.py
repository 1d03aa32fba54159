"""`dragoman files`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from dragoman.cli.files import as_url
from dragoman.testing.harness import LocalBroker


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("shared")
    (folder / "sub").mkdir()
    (folder / "sub" / "a.txt").write_text("hello")
    (folder / "drop").mkdir()
    files = {"roots": {"": str(folder), "drop": str(folder / "drop")}, "writable": ["drop"]}
    with LocalBroker(files=files) as broker:
        yield broker.url("nfp")


def test_listing(run: Run) -> None:
    assert run("files", "list") == (0, "drop\nsub\n", "")
    assert run("files", "list", "drop")[1] == "no files\n"
    code, out, _ = run("files", "list", "-r", "--json")
    assert (code, json.loads(out)) == (0, ["nf://sub/a.txt"])
    assert json.loads(run("files", "details", "sub/a.txt")[1])["size_bytes"] == 5


def test_fetching_and_putting(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("files", "fetch", "nf://sub/a.txt", str(tmp_path))
    assert (code, out.strip()) == (0, str(tmp_path / "a.txt"))
    assert (tmp_path / "a.txt").read_text() == "hello"
    assert run("files", "put", str(tmp_path / "a.txt"), "drop/b.txt")[0] == 0
    assert run("files", "fetch", "drop/b.txt", str(tmp_path / "c"), "-q")[0] == 0
    assert (tmp_path / "c").read_text() == "hello"


def test_what_cannot_be_done_has_an_exit_code(run: Run, tmp_path: Path) -> None:
    assert run("files", "fetch", "none", str(tmp_path))[0] == 1
    assert run("files", "put", str(tmp_path / "none"), "drop/x")[0] == 2


@pytest.mark.process
def test_a_path_is_as_good_as_a_url() -> None:
    assert as_url("/a/b") == as_url("a/b") == as_url("nf://a/b") == "nf://a/b"
