"""The project's own files, for tests about them."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "dragoman"
TESTS = ROOT / "tests"
NOT_OURS = {"node_modules", "__pycache__", "build", "dist", "demo-data", "spark-warehouse"}


@dataclass(frozen=True)
class Module:
    """One source file: `path` is relative to the package, as in `core/broker.py`."""

    path: str
    text: str

    @property
    def name(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def layer(self) -> str:
        return self.path.partition("/")[0] if "/" in self.path else ""

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0].replace("/", ".")

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)


def sources() -> list[Module]:
    return [
        Module(path.relative_to(SOURCE).as_posix(), path.read_text())
        for path in sorted(SOURCE.rglob("*.py"))
    ]


def tree_files() -> Iterator[tuple[str, str]]:
    """Yield every text file of the project, relative to its root."""
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        hidden = any(part.startswith(".") and part not in (".ci", ".gitignore") for part in parts)
        if hidden or NOT_OURS.intersection(parts) or not path.is_file():
            continue
        try:
            yield "/".join(parts), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def python_files() -> list[tuple[str, str]]:
    return [
        (path.relative_to(ROOT).as_posix(), path.read_text())
        for folder in (SOURCE, TESTS)
        for path in sorted(folder.rglob("*.py"))
        if "node_modules" not in path.parts
    ]


def agree(complaints: Iterator[str]) -> None:
    """Fail with all complaints at once."""
    found = sorted(complaints)
    assert not found, "\n" + "\n".join(found)
