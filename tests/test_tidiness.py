"""Rules for files: each source has its test, none is too long or has a vague name.

And what must never be written into the tree. Each rule is a function from text to complaints; the
tests at the end feed every one of them something bad.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from tests.source_tree import TESTS, Module, agree, python_files, sources, tree_files

#: Modules whose tests may have another name: one suite runs on every ledger, every grammar.
TWIN_OF = {
    "ledger/memory.py": "ledger/test_conformance.py",
    "ledger/sqlite.py": "ledger/test_conformance.py",
    **{
        f"testing/fuzz/{name}.py": "testing/test_fuzz_grammar.py"
        for name in ("nfp", "dcp", "zss", "memo", "ncl", "http")
    },
}
#: Modules without a twin: interfaces and vocabularies that the tests of their users cover.
WITHOUT_TWIN = {
    "core/effects.py",
    "core/events.py",
    "core/limits.py",
    "dialects/facts.py",
    "dialects/peer_sides.py",
    "ledger/base.py",
    "ledger/stream.py",
    "server/cluster_node.py",
    "transports/base.py",
}
SMALL = 5
LONGEST = 500
#: `Any` in 1,000 lines of source, at most.
MOST_ANY = 6.0

#: Written in parts, so that this file does not contain the forbidden texts.
NEVER_WRITTEN = [
    *(re.compile(rf"(?<![\w.$}}])/{name}/") for name in ("work", "root", "home/" + r"\w+")),
    re.compile(r"/opt/" + "(?:pypi|wheels)"),
    re.compile(r"\b(?:files\.)?(?:pypi|pythonhosted)" + r"\.org\b"),
    re.compile(r"\bregistry\.(?:npmjs|yarnpkg)" + r"\.(?:org|com)\b"),
    re.compile(r"\b(?:deb|security|ftp|archive)\.(?:debian|ubuntu)" + r"\.(?:org|com)\b"),
]
VAGUE = re.compile(r"(?:^|_)(?:manager|helpers?|utils?|common|misc)(?:_|$)")


# --- checks -----------------------------------------------------------------------------------


def code_lines(text: str) -> int:
    """Count the lines of code, without blanks, comments and docstrings."""
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    silent |= {tokenize.ENCODING, tokenize.ENDMARKER}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {
        line
        for token in tokens
        if token.type not in silent
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def twins(path: str) -> tuple[str, ...]:
    """Return the test files, any of which may be the twin of a source file."""
    *folders, file = path.removesuffix(".py").split("/")
    top, below = folders[:1], folders[1:]
    names = ["_".join([*below, file]), "_".join([*folders, file])]
    if top == ["dialects"] and file.endswith("_side"):
        names.append("_".join([*below, "talk"]))
    if top == ["dialects"] and file == "dialect":
        # The descriptors are tested together, and so is a new one.
        names.append("registry")
    found = ["/".join([*top, f"test_{name}.py"]) for name in names]
    return (*found, TWIN_OF[path]) if path in TWIN_OF else tuple(found)


def missing_twin(module: Module, tests: set[str]) -> Iterator[str]:
    """Report a source file of more than a few lines that has no test file."""
    if module.path in WITHOUT_TWIN or module.path.endswith(("__init__.py", "__main__.py")):
        return
    if code_lines(module.text) > SMALL and not tests.intersection(twins(module.path)):
        yield f"src/dragoman/{module.path}: its twin tests/{twins(module.path)[0]} is missing"


def too_long(path: str, text: str) -> Iterator[str]:
    """Report a file that is too long."""
    if (lines := text.count("\n")) > LONGEST:
        yield f"{path}: {lines} lines; look for the second idea in it (at most {LONGEST})"


def vague_name(path: str) -> Iterator[str]:
    """Report a vague file name."""
    if VAGUE.search(Path(path).stem):
        yield f"{path}: name the file after what lives in it"


def forbidden_text(path: str, text: str) -> Iterator[str]:
    """Report paths of one machine and hosts of registries."""
    for number, line in enumerate(text.splitlines(), 1):
        for pattern in NEVER_WRITTEN:
            if found := pattern.search(line):
                yield f"{path}:{number}: {found[0]!r} belongs to one machine, not to the project"


def any_names(text: str) -> int:
    """Count the names `Any` in a module, quoted annotations too, without its imports."""
    nodes = list(ast.walk(ast.parse(text)))
    quoted = [
        each.value
        for node in nodes
        for name in ("annotation", "returns")
        if isinstance(found := getattr(node, name, None), ast.AST)
        for each in ast.walk(found)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    named = sum(isinstance(node, ast.Name) and node.id == "Any" for node in nodes)
    return named + sum(len(re.findall(r"\bAny\b", each)) for each in quoted)


def too_many_any(modules: Iterable[Module], most: float) -> Iterator[str]:
    """Report a tree with more `Any` in 1,000 lines than allowed, and the modules with most."""
    found = sorted(((any_names(module.text), module) for module in modules), key=lambda f: -f[0])
    lines = sum(module.text.count("\n") for _, module in found)
    if (share := 1000 * sum(number for number, _ in found) / max(lines, 1)) > most:
        worst = ", ".join(f"{module.path} ({number})" for number, module in found[:5])
        yield f"{share:.1f} `Any` in 1,000 lines, at most {most}: use types that say more: {worst}"


# --- the source tree --------------------------------------------------------------------------


def test_every_source_module_has_its_test_twin() -> None:
    tests = {path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
    agree(complaint for module in sources() for complaint in missing_twin(module, tests))


def test_no_file_is_too_long() -> None:
    agree(complaint for path, text in python_files() for complaint in too_long(path, text))


def test_no_file_has_a_vague_name() -> None:
    agree(complaint for path, _ in python_files() for complaint in vague_name(path))


def test_nothing_in_the_tree_names_a_machine_or_a_registry() -> None:
    agree(complaint for path, text in tree_files() for complaint in forbidden_text(path, text))


def test_types_say_something() -> None:
    agree(too_many_any(sources(), MOST_ANY))


def test_the_tables_of_exceptions_name_files_that_exist() -> None:
    known = {module.path for module in sources()}
    assert WITHOUT_TWIN | set(TWIN_OF) <= known


# --- the rules can fail -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "twin"),
    [
        ("core/broker.py", "core/test_broker.py"),
        ("ledger/memory.py", "ledger/test_conformance.py"),
        ("transports/memory.py", "transports/test_transports_memory.py"),
        ("dialects/nfp/wire.py", "dialects/test_nfp_wire.py"),
        ("dialects/nfp/client_side.py", "dialects/test_nfp_client_side.py"),
        ("dialects/nfp/client_side.py", "dialects/test_nfp_talk.py"),
        ("demo.py", "test_demo.py"),
    ],
)
def test_a_missing_twin_is_named_and_a_present_one_is_found(path: str, twin: str) -> None:
    module = Module(path, "a = 1\n" * 6)
    assert twins(path)[0] in next(missing_twin(module, {"core/test_other.py"}))
    assert not list(missing_twin(module, {twin}))


def test_a_wire_does_not_pass_with_the_tests_of_the_talk() -> None:
    module = Module("dialects/nfp/wire.py", "a = 1\n" * 6)
    assert list(missing_twin(module, {"dialects/test_nfp_talk.py"}))


def test_only_code_makes_a_module_need_a_twin() -> None:
    text = '"""One.\n\nTwo.\n"""\n\n# three\n\nx = (\n    1\n)\n\ndef f():\n    """Four."""\n'
    assert code_lines(text) == 4
    assert not list(missing_twin(Module("core/tiny.py", text), set()))


def test_a_long_file_and_a_vague_name_are_found() -> None:
    assert list(too_long("a.py", "\n" * (LONGEST + 1)))
    assert not list(too_long("a.py", "\n" * LONGEST))
    assert list(vague_name("src/dragoman/core/job_utils.py"))
    assert not list(vague_name("src/dragoman/core/commons_day.py"))


def test_every_any_is_counted() -> None:
    text = (
        "from typing import Any\nx: dict[str, Any] = {}\n"
        "def f(a: Any, b: 'list[Any]') -> 'Any': 'Any text'\n"
    )
    assert any_names(text) == 4
    module = Module("core/x.py", text)
    assert list(too_many_any([module], 1.0))
    assert not list(too_many_any([module, Module("core/y.py", "\n" * 3997)], 1.0))


@pytest.mark.parametrize(
    "text",
    [
        "see /wo" + "rk/main",
        "/ro" + "ot/.cache",
        "/ho" + "me/anna/x",
        "https://py" + "pi.org/simple",
        '"resolved": "https://registry.npm' + 'js.org/x.tgz"',
        "deb.deb" + "ian.org",
    ],
)
def test_a_machine_path_or_a_registry_is_found(text: str) -> None:
    assert list(forbidden_text("README.md", f"first\n{text}"))


@pytest.mark.parametrize("text", ["artwork/x", "a frame/work/shop", "the work / root / home"])
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert not list(forbidden_text("README.md", text))
