"""The rules of the house, as a test that fails rather than a paragraph that is forgotten.

Which way imports point, which layers are pure, which source file has which test file, how long
a file may be, and what must never be written into the tree. Each rule is a function from text to
complaints; the tests at the end feed every one of them something bad.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "dragoman"
TESTS = ROOT / "tests"

# --- the rules --------------------------------------------------------------------------------

#: What each layer may import of ours; a name stands for itself and everything below it.
#: `{folder}` is the importing module's own folder. The package itself only re-exports the SDK.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "": ("sdk", "model"),
    "model": ("model",),
    "core": ("model", "core"),
    "dialects": (
        "model",
        "core.events",
        "core.effects",
        "dialects.base",
        "dialects.talk",
        "dialects.json_values",
        "{folder}",
    ),
    # One CURVE, one TLS and one form of NATS's keys for all that need them.
    "transports": (
        "transports.base",
        "transports.nats_users",
        "transports.nkeys",
        "transports.tls",
        "transports.zap",
        "transports.zmq",
    ),
    "ledger": ("model", "ledger"),
    "services": ("model", "core.view", "services"),
    "security": ("model", "core.events", "core.effects", "security"),
    "server": tuple("model core dialects transports ledger services security server web".split()),
    "sdk": ("model", "dialects", "transports", "sdk"),
    "web": tuple(
        """model core.view dialects.base dialects.http transports.base transports.memory
        transports.tls security web""".split()
    ),
    "cli": tuple(
        "model sdk ledger security server services pipeline spark testing web cli".split()
    ),
    "pipeline": ("model.record", "pipeline"),
    # A peer like any other, that also reads the pipeline's tables.
    "spark": (
        "model",
        "dialects.talk",
        "sdk",
        "pipeline.session",
        "pipeline.store",
        "pipeline.tables",
        "spark",
    ),
    "testing": tuple(
        "model core dialects transports ledger services security server sdk testing".split()
    ),
}

#: The SDK uses the client and worker sides only.
NOT_FOR_THE_SDK = re.compile(r"dialects\.\w+\.broker_side\b")

PURE = ("model", "core", "dialects")
#: Everything else that is not in the standard library stays out of the pure layers.
CODECS = {
    "model": set[str](),
    "core": set[str](),
    "dialects": {"cbor2", "msgpack", "msgspec"},
    "security": {"msgspec"},
}
#: Everything that decides is pure; what these do is read, write and watch files.
IMPURE_IN_SECURITY = {"security/files.py", "security/policy_file.py", "security/registry.py"}
#: The parts of the standard library that touch the world or wait for it.
IMPURE = set(
    """asyncio concurrent ctypes fcntl fileinput getpass glob http io linecache locale logging mmap
    multiprocessing os pathlib pickle platform pty queue random resource sched secrets select
    selectors shelve shutil signal smtplib socket socketserver sqlite3 ssl subprocess sys syslog
    tempfile termios threading time tracemalloc uuid warnings webbrowser""".split()
)
#: Codecs read from and write to memory through these.
PURE_ALL_THE_SAME = {"io.BytesIO", "io.StringIO"}
IMPURE_CALLS = {"open", "print", "input", "breakpoint", "exec", "eval", "__import__"}
CLOCKS = {"now", "utcnow", "today"}
WAITING = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)

#: Modules whose tests may have another name: one suite runs on every ledger, every grammar.
TWIN_OF = {
    "ledger/memory.py": "ledger/test_conformance.py",
    "ledger/sqlite.py": "ledger/test_conformance.py",
    **{
        f"testing/fuzz/{name}.py": "testing/test_fuzz_grammar.py"
        for name in ("nfp", "dcp", "zss", "memo", "ncl", "http")
    },
}
#: Modules without a twin of their own: interfaces and words that every neighbour's test speaks.
WITHOUT_TWIN = {
    "core/effects.py",
    "core/events.py",
    "core/limits.py",
    "dialects/talk.py",
    "ledger/base.py",
    "transports/base.py",
}
SMALL = 5
LONGEST = 500

#: Written in halves, so that this file does not accuse itself.
NEVER_WRITTEN = [
    *(re.compile(rf"(?<![\w.$}}])/{name}/") for name in ("work", "root", "home/" + r"\w+")),
    re.compile(r"/opt/" + "(?:pypi|wheels)"),
    re.compile(r"\b(?:files\.)?(?:pypi|pythonhosted)" + r"\.org\b"),
    re.compile(r"\bregistry\.(?:npmjs|yarnpkg)" + r"\.(?:org|com)\b"),
    re.compile(r"\b(?:deb|security|ftp|archive)\.(?:debian|ubuntu)" + r"\.(?:org|com)\b"),
]
VAGUE = re.compile(r"(?:^|_)(?:manager|helpers?|utils?|common|misc)(?:_|$)")
NOT_OURS = {"node_modules", "__pycache__", "build", "dist", "demo-data", "spark-warehouse"}


# --- reading ----------------------------------------------------------------------------------


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


def imports(module: Module) -> Iterator[tuple[int, str]]:
    """Yield line and full dotted name of everything a module imports, wherever it does so."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                # Relative: climb from the module's own package.
                package = ["dragoman", *module.path.split("/")[:-1]]
                stem = package[: len(package) - node.level + 1]
                origin = ".".join([*stem, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)


# --- judging ----------------------------------------------------------------------------------


def wrong_imports(module: Module) -> Iterator[str]:
    """Complain about imports of ours that point the wrong way."""
    if module.layer not in MAY_IMPORT:
        yield f"{module.path}: the layer {module.layer!r} has no line in MAY_IMPORT"
        return
    may = [name.format(folder=module.folder) for name in MAY_IMPORT[module.layer]]
    for line, name in imports(module):
        if not name.startswith("dragoman."):
            continue
        ours = name.removeprefix("dragoman.")
        is_allowed = any(ours == each or ours.startswith(each + ".") for each in may)
        is_broker_side = module.layer == "sdk" and NOT_FOR_THE_SDK.match(ours)
        if is_broker_side or not is_allowed:
            yield f"{module.path}:{line}: {module.layer or 'the package'} must not import {ours}"


def impurities(module: Module) -> Iterator[str]:
    """Complain about a pure layer that touches the world or waits for it."""
    is_deciding = module.layer == "security" and module.path not in IMPURE_IN_SECURITY
    if module.layer not in PURE and not is_deciding:
        return
    for line, name in imports(module):
        if _reaches_out(module.layer, name):
            yield f"{module.path}:{line}: {module.layer} is pure and must not import {name}"
    for node in ast.walk(module.tree):
        if isinstance(node, WAITING):
            yield f"{module.path}:{node.lineno}: {module.layer} is pure and never waits"
        elif isinstance(node, ast.Call) and (called := _impure_call(node)):
            yield f"{module.path}:{node.lineno}: {module.layer} is pure and must not call {called}"


def _reaches_out(layer: str, name: str) -> bool:
    top = name.partition(".")[0]
    if name in PURE_ALL_THE_SAME:
        return False
    if top in IMPURE or name.startswith("urllib.request"):
        return True
    return top != "dragoman" and top not in sys.stdlib_module_names and top not in CODECS[layer]


def _impure_call(call: ast.Call) -> str | None:
    if isinstance(call.func, ast.Name) and call.func.id in IMPURE_CALLS:
        return f"{call.func.id}()"
    if isinstance(call.func, ast.Attribute) and call.func.attr in CLOCKS:
        owner = ast.unparse(call.func.value).rpartition(".")[2]
        if owner in ("datetime", "date"):
            return f"{owner}.{call.func.attr}()"
    return None


def code_lines(text: str) -> int:
    """Count the lines that say something to the interpreter: no blanks, comments, docstrings."""
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
    """Name the test files, any of which is the twin of a source file."""
    *folders, file = path.removesuffix(".py").split("/")
    top, below = folders[:1], folders[1:]
    names = ["_".join([*below, file]), "_".join([*folders, file])]
    if top == ["dialects"] and file.endswith("_side"):
        names.append("_".join([*below, "talk"]))
    found = ["/".join([*top, f"test_{name}.py"]) for name in names]
    return (*found, TWIN_OF[path]) if path in TWIN_OF else tuple(found)


def missing_twin(module: Module, tests: set[str]) -> Iterator[str]:
    """Complain about a source file of more than a few lines that has no test file."""
    if module.path in WITHOUT_TWIN or module.path.endswith(("__init__.py", "__main__.py")):
        return
    if code_lines(module.text) > SMALL and not tests.intersection(twins(module.path)):
        yield f"src/dragoman/{module.path}: its twin tests/{twins(module.path)[0]} is missing"


def too_long(path: str, text: str) -> Iterator[str]:
    """Complain about a file in which a second idea must be hiding."""
    if (lines := text.count("\n")) > LONGEST:
        yield f"{path}: {lines} lines; look for the second idea in it (at most {LONGEST})"


def vague_name(path: str) -> Iterator[str]:
    """Complain about a file name that would fit anything."""
    if VAGUE.search(Path(path).stem):
        yield f"{path}: name the file after what lives in it"


def forbidden_text(path: str, text: str) -> Iterator[str]:
    """Complain about paths of one machine and hosts of registries."""
    for number, line in enumerate(text.splitlines(), 1):
        for pattern in NEVER_WRITTEN:
            if found := pattern.search(line):
                yield f"{path}:{number}: {found[0]!r} belongs to one machine, not to the project"


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


# --- the house as it stands -------------------------------------------------------------------


def agree(complaints: Iterator[str]) -> None:
    found = sorted(complaints)
    assert not found, "\n" + "\n".join(found)


def test_imports_point_the_right_way() -> None:
    agree(complaint for module in sources() for complaint in wrong_imports(module))


def test_model_core_dialects_and_what_decides_are_pure() -> None:
    agree(complaint for module in sources() for complaint in impurities(module))


def test_every_source_module_has_its_test_twin() -> None:
    tests = {path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
    agree(complaint for module in sources() for complaint in missing_twin(module, tests))


def test_the_tables_of_exceptions_name_files_that_exist() -> None:
    known = {module.path for module in sources()}
    assert WITHOUT_TWIN | set(TWIN_OF) | IMPURE_IN_SECURITY <= known


def test_no_file_hides_a_second_idea() -> None:
    agree(complaint for path, text in python_files() for complaint in too_long(path, text))


def test_no_file_is_named_after_nothing() -> None:
    agree(complaint for path, _ in python_files() for complaint in vague_name(path))


def test_nothing_in_the_tree_names_a_machine_or_a_registry() -> None:
    agree(complaint for path, text in tree_files() for complaint in forbidden_text(path, text))


# --- the rules can fail -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("model/job.py", "from dragoman.core.events import Event"),
        ("core/broker.py", "from dragoman.dialects.base import Send"),
        ("core/broker.py", "import dragoman.ledger.base"),
        ("core/broker.py", "from ..dialects import base"),
        ("dialects/nfp/wire.py", "from dragoman.dialects.dcp.wire import Ready"),
        ("dialects/nfp/wire.py", "from ..dcp import wire"),
        ("dialects/nfp/wire.py", "from dragoman.core.broker import Broker"),
        ("dialects/nfp/wire.py", "from dragoman.transports.base import Sent"),
        ("transports/zmq.py", "from dragoman.model.names import PeerId"),
        ("transports/zmq.py", "from dragoman.transports.memory import Memory"),
        ("ledger/sqlite.py", "from dragoman.core.effects import Append"),
        ("sdk/client.py", "from dragoman.core.broker import Broker"),
        ("sdk/client.py", "from dragoman.server.loop import Loop"),
        ("sdk/client.py", "from dragoman.dialects.nfp.broker_side import BrokerSide"),
        ("pipeline/schema.py", "from dragoman.model.job import JobState"),
        ("server/loop.py", "def run():\n    from dragoman.cli import main"),
        ("__init__.py", "from dragoman.server.loop import Loop"),
        ("attic/old.py", "x = 1"),
    ],
)
def test_an_import_that_points_the_wrong_way_is_found(path: str, text: str) -> None:
    assert list(wrong_imports(Module(path, text)))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("core/broker.py", "from dragoman.core.events import Event\nimport heapq"),
        ("dialects/nfp/wire.py", "from dragoman.dialects.nfp import codes\nimport msgspec"),
        ("dialects/nfp/broker_side.py", "from . import wire\nfrom ..base import Send"),
        ("dialects/nfp/wire.py", "from dragoman.core import effects"),
        ("dialects/nfp/wire.py", "from io import BytesIO"),
        ("pipeline/schema.py", "from dragoman.model.record import Record"),
        ("__init__.py", "from dragoman.sdk import Client"),
    ],
)
def test_an_import_that_points_the_right_way_is_left_alone(path: str, text: str) -> None:
    assert not list(wrong_imports(Module(path, text)))
    assert not list(impurities(Module(path, text)))


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "from time import monotonic",
        "import random",
        "from os import urandom",
        "import os.path",
        "from pathlib import Path",
        "import logging",
        "import uuid, secrets",
        "import zmq",
        "from nats.aio import client",
        "import apsw",
        "import msgspec",
        "from urllib.request import urlopen",
        "def f():\n    import socket",
        "from io import open",
        "async def f(): ...",
        "open('x')",
        "print(1)",
        "import datetime\ndatetime.datetime.now()",
        "from datetime import date\ndate.today()",
    ],
)
def test_an_impure_line_in_the_core_is_found_and_elsewhere_is_not(text: str) -> None:
    assert list(impurities(Module("core/broker.py", text)))
    assert list(impurities(Module("security/gate.py", text))) or text == "import msgspec"
    assert not list(impurities(Module("security/registry.py", text)))
    assert not list(impurities(Module("server/loop.py", text)))


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
