"""Finding what `dragoman worker` is to run."""

from pathlib import Path

import pytest

from dragoman.cli.worker import find


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "desk_module.py").write_text("def add(a): return a\nclass Desk:\n    x = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_a_module_and_things_in_it_are_found(here: None) -> None:
    assert find("desk_module").__name__ == "desk_module"
    assert find("desk_module:add")(3) == 3
    assert find("desk_module:Desk.x") == 1


@pytest.mark.parametrize("what", ["no_such_module", "desk_module:nothing"])
def test_a_missing_module_or_object_is_reported(here: None, what: str) -> None:
    with pytest.raises(ValueError, match="no"):
        find(what)


def test_a_module_that_fails_shows_only_the_users_frames(here: None) -> None:
    Path("broken.py").write_text("def deep():\n    return 1 / 0\n\ndeep()\n")
    with pytest.raises(ValueError, match="broken failed to import") as caught:
        find("broken")
    text = str(caught.value)
    assert text.count("File ") == 2
    assert "broken.py" in text
    assert text.endswith("ZeroDivisionError: division by zero")


def test_a_missing_import_of_a_module_is_named(here: None) -> None:
    Path("lacking.py").write_text("import nosuchthing\n")
    with pytest.raises(ValueError, match="No module named 'nosuchthing'"):
        find("lacking")
