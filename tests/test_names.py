"""One name, one thing: a class name stands once in the tree, and no picture word comes back."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from tests.source_tree import Module, agree, sources

#: Names that stay double, with the reason.
DOUBLE = {
    "Job": "the broker's job and the SDK's handle of it: one thing, seen from both ends",
}
#: Words that the field does not use. A name that contains one is renamed (docs/glossary.md).
PICTURES = re.compile(
    r"(?i)(?:^|_)(?:desk|wardrobe|redress|house|doorkeeper|doorstep|courier|tongue|hose|shelf)s?(?:_|$)"
)


def class_names(modules: Iterable[Module]) -> dict[str, list[str]]:
    """Map every class name to the modules that define it."""
    found: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in ast.parse(module.text).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(module.path)
    return found


def doubles(modules: Iterable[Module]) -> Iterator[str]:
    for name, paths in class_names(modules).items():
        if len(paths) > 1 and name not in DOUBLE:
            yield f"class {name} stands in {', '.join(paths)}: prefix it with what it belongs to"


def pictures(module: Module) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.text)):
        name = getattr(node, "name", None) or getattr(node, "id", None) or getattr(node, "arg", "")
        if isinstance(name, str) and PICTURES.search(name):
            line = getattr(node, "lineno", 0)
            yield f"{module.path}:{line}: {name} is a picture; use a word of the glossary"


def test_a_class_name_means_one_thing() -> None:
    agree(doubles(sources()))


def test_names_are_words_of_the_field() -> None:
    agree(complaint for module in sources() for complaint in pictures(module))


def test_the_exceptions_are_still_needed() -> None:
    found = class_names(sources())
    assert all(len(found[name]) > 1 for name in DOUBLE)


# --- the rules can fail -----------------------------------------------------------------------


def test_a_double_name_and_a_picture_are_found() -> None:
    one, two = Module("a.py", "class Box: ..."), Module("b.py", "class Box: ...")
    assert list(doubles([one, two]))
    assert not list(doubles([one]))
    assert list(pictures(Module("a.py", "def worker_desk(): ...")))
    assert not list(pictures(Module("a.py", "def desktop(): ...")))
