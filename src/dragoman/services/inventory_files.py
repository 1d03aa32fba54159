"""Inventory files: a folder of YAML or TOML files, rendered with Jinja2 and merged.

The form is NorFab's. `inventory.yaml` has `workers`: its keys are patterns of worker names, its
values are lists of files (relative to the folder) or objects. Beside it stand `broker`, `topology`
and others. In a folder without an index, all files are read in the order of their names. Every
error is a `BrokenInventory` that names the file and, if known, the line.
"""

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from jinja2 import TemplateError, TemplateSyntaxError

from dragoman.model.value import field, value
from dragoman.services.bounded_templates import TooLarge, check_size, render
from dragoman.services.secret_references import mark_references

INDEX: Final = ("inventory.yaml", "inventory.yml", "inventory.toml")
ENDINGS: Final = (".yaml", ".yml", ".toml")
#: The largest inventory file in bytes.
LARGEST: Final = 16 * 1024 * 1024


class BrokenInventory(Exception):
    """An inventory that cannot be read. The message names file and line."""


@value
class InventorySource:
    """The content of a folder: worker patterns with their objects in order, and the rest."""

    workers: tuple[tuple[str, Mapping[str, object]], ...] = ()
    others: Mapping[str, object] = field(default_factory=dict)
    #: Paths that are declared secrets.
    secrets: tuple[str, ...] = ()
    #: Name, modification time and size of every file read, to detect changes. A file that could
    #: not be read has -1 for both.
    stamps: tuple[tuple[str, int, int], ...] = ()
    #: Worker patterns whose file cannot be read, each with the reason.
    broken: tuple[tuple[str, str], ...] = ()


def merge(into: Mapping[str, object], other: Mapping[str, object]) -> dict[str, object]:
    """Merge deeply: objects by key, lists joined without repeats, otherwise the later value."""
    merged = dict(into)
    for key, new in other.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            merged[key] = merge(old, new)
        elif isinstance(old, list) and isinstance(new, list):
            merged[key] = old + [item for item in new if item not in old]
        else:
            merged[key] = new
    return merged


def read_source(path: Path, env: Mapping[str, str] | None = None) -> InventorySource:
    """Read a folder, or the index file in one. Raises `BrokenInventory`."""
    return _Reader(path, dict(os.environ if env is None else env)).read()


class _Reader:
    """Reads one folder; each file once."""

    def __init__(self, path: Path, env: Mapping[str, str]) -> None:
        self._path = path
        self._folder = path.parent if path.is_file() else path
        self._env = env
        self._read: dict[Path, dict[str, object]] = {}
        self._stamps: list[tuple[str, int, int]] = []
        self._broken: list[tuple[str, str]] = []

    def read(self) -> InventorySource:
        index: dict[str, object] = {}
        for file in self._index_files():
            index = merge(index, self._file(file))
        patterns = index.pop("workers", None) or {}
        if not isinstance(patterns, Mapping):
            raise BrokenInventory(f"{self._path}: workers must be an object of name patterns")
        workers = [(str(k), o) for k, items in patterns.items() for o in self._objects(k, items)]
        secrets = _read_secrets(self._path, index.pop("secrets", None))
        marked = tuple((pattern, mark_references(each)) for pattern, each in workers)
        stamps, broken = tuple(self._stamps), tuple(self._broken)
        return InventorySource(marked, mark_references(index), secrets, stamps, broken)

    def _index_files(self) -> Iterable[Path]:
        if self._path.is_file():
            return [self._path]
        if not self._path.is_dir():
            raise BrokenInventory(f"{self._path}: there is no such file or folder")
        named = [self._path / name for name in INDEX if (self._path / name).is_file()]
        return named[:1] or sorted(p for p in self._path.iterdir() if p.suffix in ENDINGS)

    def _objects(self, pattern: object, items: object) -> Iterable[Mapping[str, object]]:
        for item in items if isinstance(items, list) else [items]:
            if isinstance(item, str):
                yield from self._worker_file(str(pattern), self._folder / item)
            elif isinstance(item, Mapping):
                yield item
            elif item is not None:
                kind = type(item).__name__
                raise BrokenInventory(f"{self._path}: {pattern}: a file or an object, not {kind}")

    def _worker_file(self, pattern: str, path: Path) -> Iterable[Mapping[str, object]]:
        """Read a file of some workers. One that cannot be read concerns only those."""
        try:
            yield self._file(path, f"named for {pattern}")
        except BrokenInventory as error:
            self._broken.append((pattern, str(error)))
            if not any(name == str(path) for name, _, _ in self._stamps):
                self._stamps.append((str(path), -1, -1))

    def _file(self, path: Path, why: str = "") -> dict[str, object]:
        if path not in self._read:
            try:
                stamp = path.stat()
                text = path.read_text()
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                raise BrokenInventory(f"{path}: {reason}{f' ({why})' if why else ''}") from None
            if stamp.st_size > LARGEST:
                raise BrokenInventory(f"{path}: {stamp.st_size} bytes; the limit is {LARGEST}")
            self._stamps.append((str(path), stamp.st_mtime_ns, stamp.st_size))
            self._read[path] = _parse(path, _render(path, text, self._env))
        return self._read[path]


def _read_secrets(path: Path, declared: Any) -> tuple[str, ...]:
    if not isinstance(declared or [], list) or not all(isinstance(d, str) for d in declared or []):
        raise BrokenInventory(f"{path}: secrets must be a list of paths")
    return tuple(declared or ())


def read_resources(parsed: Any) -> dict[str, tuple[tuple[str, ...], int]]:
    """Parse the resources by service: a list of names, or `names` and `replicas`."""
    if not isinstance(parsed or {}, Mapping):
        raise BrokenInventory("resources must be an object of services")
    return {str(service): _resources(service, each) for service, each in (parsed or {}).items()}


def _resources(service: object, parsed: object) -> tuple[tuple[str, ...], int]:
    about = parsed if isinstance(parsed, Mapping) else {"names": parsed}
    names, replicas = about.get("names"), about.get("replicas", 1)
    if not isinstance(names, list) or not all(isinstance(n, str) and n for n in names):
        raise BrokenInventory(f"resources: {service}: a list of names is expected")
    if any("\n" in name for name in names) or not isinstance(replicas, int) or replicas < 1:
        raise BrokenInventory(f"resources: {service}: names must be one line, replicas at least 1")
    return tuple(dict.fromkeys(names)), replicas


def has_changed(source: InventorySource) -> bool:
    """Tell whether a file of a source has changed since it was read."""
    for name, modified, size in source.stamps:
        try:
            stamp = os.stat(name)
        except OSError:
            if modified == -1:
                continue
            return True
        if (stamp.st_mtime_ns, stamp.st_size) != (modified, size):
            return True
    return False


def _render(path: Path, text: str, env: Mapping[str, str]) -> str:
    if "{{" not in text and "{%" not in text and "{#" not in text:
        return text
    try:
        return render(text, {"env": env})
    except TooLarge as error:
        raise BrokenInventory(f"{path}: {error}") from None
    except TemplateSyntaxError as error:
        raise BrokenInventory(f"{path}, line {error.lineno}: {error.message}") from None
    except TemplateError as error:
        raise BrokenInventory(f"{path}, line {_line(error)}: {error.message}") from None
    except Exception as error:
        raise BrokenInventory(f"{path}, line {_line(error)}: {error}") from None


def _line(error: Exception) -> int:
    """Return the template line at which rendering failed."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _parse(path: Path, text: str) -> dict[str, object]:
    try:
        parsed = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
        check_size(parsed)
    except tomllib.TOMLDecodeError as error:
        raise BrokenInventory(f"{path}: {error}") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise BrokenInventory(f"{path}, line {line}: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError, TooLarge) as error:
        raise BrokenInventory(f"{path}: {error}") from None
    if parsed is None:
        return {}
    if not isinstance(parsed, dict) or not all(isinstance(key, str) for key in parsed):
        raise BrokenInventory(f"{path}: the file must be an object with text keys")
    return parsed
