"""Reads the settings: defaults, then the TOML file, then the environment, then flags; later win.

An unknown name is an error that names the nearest setting. Nothing else reads `DRAGOMAN_` variables
of settings.
"""

import difflib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import structlog
from pydantic import ValidationError

from dragoman.model.value import field, value
from dragoman.server.settings import BrokerSettings
from dragoman.server.settings_reference import (
    ANY_NAME,
    VARIABLE_PREFIX,
    SettingInfo,
    all_settings,
)

log = structlog.get_logger("dragoman.settings")

DEFAULT: Final = "default"
FLAG: Final = "flag"
#: Variables that are not settings of the broker; a name close to one is no misspelt setting.
OTHER_VARIABLES: Final = tuple(
    VARIABLE_PREFIX + name
    for name in ("URL", "CONFIG", "CONTEXT", "JSON", "KEY_FILE", "SERVER_KEY")
)
_CLOSE: Final = 0.8
_AT: Final = re.compile(r" \(at line (\d+), column (\d+)\)$")
Tree = dict[str, Any]


@value
class LoadedSettings:
    """The settings, and where each value came from."""

    settings: BrokerSettings
    #: The source of each value that is set, by its path.
    origins: Mapping[tuple[str, ...], str] = field(default_factory=dict)

    def origin(self, path: tuple[str, ...]) -> str:
        """Return where a value came from: `default`, the file, a variable or `flag`."""
        above = (self.origins.get(path[:size]) for size in range(len(path), 0, -1))
        return next((each for each in above if each), DEFAULT)

    def origin_of_section(self, path: tuple[str, ...]) -> str:
        """Return where the first value of a section came from."""
        below = (origin for each, origin in self.origins.items() if each[: len(path)] == path)
        return next(below, DEFAULT)


def load(config: Path | None = None, **flags: object) -> BrokerSettings:
    """Read the settings. Raises ValueError with the name, the source and the nearest setting."""
    return load_with_origins(config, **flags).settings


def load_file(path: Path) -> BrokerSettings:
    """Read the settings of a file alone: neither the environment nor flags are for them."""
    merged: Tree = {}
    origins: dict[tuple[str, ...], str] = {}
    for each, given, origin in _given(read_file(path), str(path)):
        _put(merged, each, given)
        origins[each] = origin
    return _checked(merged, origins)


def load_with_origins(config: Path | None = None, **flags: object) -> LoadedSettings:
    """Read the settings and where each came from. Raises ValueError, as `load` does."""
    merged: Tree = {}
    origins: dict[tuple[str, ...], str] = {}
    file = read_file(config) if config is not None else {}
    sources = [*_given(file, str(config)), *read_environment(os.environ), *_given(flags, FLAG)]
    for path, given, origin in sources:
        _put(merged, path, given)
        origins[path] = origin
    return LoadedSettings(_checked(merged, origins), origins)


def _checked(merged: Tree, origins: Mapping[tuple[str, ...], str]) -> BrokerSettings:
    try:
        return BrokerSettings(**merged)
    except ValidationError as error:
        raise ValueError(_explain(error, LoadedSettings(BrokerSettings(), origins))) from None


def read_file(path: Path) -> Tree:
    """Read a TOML file. Raises ValueError with the line and its text."""
    try:
        text = path.read_text()
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(_locate(path, text, str(error))) from None
    except FileNotFoundError:
        raise ValueError(f"the settings file {path} does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read the settings file {path}: {error}") from None


def _locate(path: Path, text: str, message: str) -> str:
    found = _AT.search(message)
    if found is None:
        return f"{path}: {message}"
    line = text.splitlines()[int(found[1]) - 1].strip()
    return f"{path}, line {found[1]}: {_AT.sub('', message)}: {line}"


def read_environment(environ: Mapping[str, str]) -> Iterator[tuple[tuple[str, ...], object, str]]:
    """Yield path, value and name of every variable that is a setting. Raises ValueError."""
    for variable, text in environ.items():
        if not variable.upper().startswith(VARIABLE_PREFIX):
            continue
        path = tuple(variable[len(VARIABLE_PREFIX) :].lower().split("__"))
        info, is_section = _find(path), _is_section(path)
        if info is None and not is_section:
            _complain(variable, path)
        elif info is not None and info.is_scalar:
            yield path, text, variable
        else:
            yield from _given_json(path, text, variable)


def _given_json(
    path: tuple[str, ...], text: str, variable: str
) -> Iterator[tuple[tuple[str, ...], object, str]]:
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{variable} must be JSON, as in ['a', 'b']: {error}") from None
    yield from _given(given, variable, path) if _is_section(path) else [(path, given, variable)]


def _complain(variable: str, path: tuple[str, ...]) -> None:
    """Refuse a variable that can only be a misspelt setting; warn of one that looks like one."""
    if len(path) > 1:
        raise ValueError(unknown(path, variable))
    known = [info.variable for info in all_settings() if ANY_NAME not in info.path]
    near = difflib.get_close_matches(variable.upper(), [*known, *OTHER_VARIABLES], 1, _CLOSE)
    if near and near[0] not in OTHER_VARIABLES:
        log.warning("unknown variable", variable=variable, did_you_mean=near[0])


def _given(
    tree: Mapping[str, object], origin: str, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], object, str]]:
    """Yield path, value and origin of every setting in a tree. Raises ValueError."""
    for name, given in tree.items():
        path = (*above, name)
        if _find(path) is not None:
            yield path, given, origin
        elif not _is_section(path):
            raise ValueError(unknown(path, origin))
        elif isinstance(given, Mapping):
            if not given and _is_named(path):
                # `[namespaces.acme]` alone is a namespace with all defaults.
                yield path, {}, origin
            yield from _given(given, origin, path)
        else:
            raise ValueError(f"{origin}: {'.'.join(path)} is a section, not a setting")


def _find(path: tuple[str, ...]) -> SettingInfo | None:
    return next((info for info in all_settings() if info.fits(path)), None)


def _is_section(path: tuple[str, ...]) -> bool:
    size = len(path)
    return any(
        len(info.path) > size
        and all(own in (ANY_NAME, name) for own, name in zip(info.path, path, strict=False))
        for info in all_settings()
    )


def _is_named(path: tuple[str, ...]) -> bool:
    """Tell whether a section has a name of the user's choice."""
    places = {info.path[: len(path)] for info in all_settings() if len(info.path) > len(path)}
    return (*path[:-1], ANY_NAME) in places


def unknown(path: tuple[str, ...], origin: str) -> str:
    """Say that a name is no setting, and which one is nearest."""
    name = ".".join(path)
    known = [info.name for info in all_settings()]
    sections = {info.path[0] for info in all_settings() if len(info.path) > 1}
    near = difflib.get_close_matches(name, [*known, *sections], 1, 0.6)
    hint = f"; did you mean {near[0]}?" if near else "; `dragoman settings` lists all"
    return f"{origin}: unknown setting {name}{hint}"


def _put(tree: Tree, path: tuple[str, ...], given: object) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    if given == {}:
        tree.setdefault(path[-1], given)
    else:
        tree[path[-1]] = given


def _explain(error: ValidationError, loaded: LoadedSettings) -> str:
    """Write one line for each wrong value: where it came from, its name, what is wrong."""
    lines = []
    for each in error.errors(include_url=False):
        path = tuple(map(str, each["loc"]))
        message = each["msg"].removeprefix("Value error, ")
        shown = "" if each["type"] == "value_error" else f" = {each['input']!r}"
        origin = loaded.origin_of_section(path) if _is_section(path) else loaded.origin(path)
        lines.append(f"{origin}: {'.'.join(path)}{shown}: {message}")
    return "\n".join(lines)
