"""The rules of the architecture, enforced as tests.

Which way imports point, and which layers are pure. Each rule is a function from text to complaints;
the tests at the end feed every one of them something bad. How files are to be kept is in
`test_tidiness.py`.
"""

import ast
import re
import sys
from collections.abc import Iterator

import pytest
from tests.source_tree import Module, agree, sources

# --- the rules --------------------------------------------------------------------------------

#: What each layer may import of this package; a name includes everything below it.
#: `{folder}` is the importing module's own folder. The package itself only re-exports the SDK.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "": ("sdk", "model", "extras", "cli.main"),
    "model": ("model",),
    "core": ("model", "core"),
    "dialects": (
        "model",
        "core.events",
        "core.effects",
        "dialects.base",
        "dialects.peer_sides",
        "dialects.descriptor",
        "dialects.facts",
        "dialects.json_values",
        "dialects.note_notices",
        "dialects.note_requests",
        "dialects.notes",
        "dialects.parts",
        "dialects.registry",
        "dialects.unconfirmed",
        "{folder}",
    ),
    # One CURVE, one TLS and one form of NATS's keys for all that need them.
    "transports": (
        "transports.base",
        "transports.addresses",
        "transports.certificate_names",
        "transports.curve_box",
        "transports.accept_limiter",
        "transports.accepted_connection",
        "transports.http_connection",
        "transports.jetstream_connection",
        "transports.listener",
        "transports.nats_cluster",
        "transports.nats_storage",
        "transports.nats_users",
        "transports.nkeys",
        "transports.nng_dialer",
        "transports.nng_refusals",
        "transports.origins",
        "transports.pending_connections",
        "transports.recognition",
        "transports.sp_connection",
        "transports.tls",
        "transports.zmtp_connection",
        "transports.zmq_peers",
        "transports.zmtp_curve",
        "transports.zmtp_curve_client",
        "transports.zmtp_dealer",
        "transports.zmtp_mechanism",
        "transports.zmtp_wire",
    ),
    "ledger": ("model", "ledger"),
    "services": ("model", "core.view", "services"),
    "security": ("model", "core.events", "core.effects", "security"),
    "server": tuple("model core dialects transports ledger services security server web".split()),
    "sdk": ("extras", "model", "dialects", "transports", "sdk"),
    "web": tuple(
        """model core.events core.effects core.view dialects.base dialects.http transports.base
        transports.origins transports.tls security web""".split()
    ),
    "cli": tuple(
        """model dialects.listeners sdk ledger security server services pipeline spark testing web
        extras cli""".split()
    ),
    "pipeline": ("model.record", "pipeline"),
    # A peer that also reads the pipeline's tables.
    "spark": (
        "extras",
        "model",
        "dialects.peer_sides",
        "sdk",
        "pipeline.session",
        "pipeline.store",
        "pipeline.tables",
        "spark",
    ),
    # Other task queues' names, for programs: what they may use is what users may.
    "compat": ("model", "dialects.peer_sides", "dialects.registry", "sdk", "compat"),
    "testing": tuple(
        "extras model core dialects transports ledger services security server sdk testing".split()
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
#: Modules of otherwise pure layers that read, write and watch files.
IMPURE_IN_SECURITY = {"security/files.py", "security/policy_file.py", "security/registry.py"}
#: The modules of the standard library that do I/O, wait, or use clock or randomness.
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

# --- checks -----------------------------------------------------------------------------------


def imports(module: Module) -> Iterator[tuple[int, str]]:
    """Yield line and full dotted name of all imports of a module, at any depth."""
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


def wrong_imports(module: Module) -> Iterator[str]:
    """Yield the imports of this package that the rules forbid."""
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
    """Yield the lines of a pure layer that do I/O, wait, or use clock or randomness."""
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


# --- the source tree --------------------------------------------------------------------------


def test_imports_point_the_right_way() -> None:
    agree(complaint for module in sources() for complaint in wrong_imports(module))


def test_model_core_dialects_and_what_decides_are_pure() -> None:
    agree(complaint for module in sources() for complaint in impurities(module))


def test_the_table_of_exceptions_names_files_that_exist() -> None:
    assert {module.path for module in sources()} >= IMPURE_IN_SECURITY


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
