"""`dragoman settings`: every setting, its value, and where the value came from."""

import json
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dragoman.cli.broker_files import CONFIG, DATA
from dragoman.cli.output import AS_JSON, print_json, print_rows

if TYPE_CHECKING:
    from dragoman.server.settings_reference import SettingInfo
    from dragoman.server.settings_sources import LoadedSettings


def settings(
    name: str = typer.Argument("", help="Only settings whose name contains this text."),
    changed: bool = typer.Option(False, "--changed", help="Only settings that are not default."),
    markdown: bool = typer.Option(False, "--markdown", help="Print docs/settings.md."),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    as_json: bool = AS_JSON,
) -> None:
    """Print all settings with their values, and the source of each value.

    The source is `default`, the file, the environment variable or `flag`; later ones win.
    `dragoman settings nfp` prints those of NFP; `--json` also has defaults, types and variables.
    """
    # Imported here: the other commands start faster without the server.
    from dragoman.server.settings_sources import load_with_origins

    if markdown:
        typer.echo(page(), nl=False)
        return
    flags = {"data": data} if data is not None else {}
    rows = [row for row in _rows(load_with_origins(config, **flags)) if name in row["setting"]]
    if changed:
        rows = [row for row in rows if row["source"] != "default"]
    if as_json:
        print_json(rows)
    else:
        print_rows([_short(row) for row in rows], as_json, "no settings")


def _rows(loaded: "LoadedSettings") -> list[dict[str, Any]]:
    from dragoman.server.settings_reference import all_settings

    return [
        {
            "setting": ".".join(path),
            "value": _value(loaded.settings, path),
            "source": loaded.origin(path),
            "default": info.default,
            "type": info.kind,
            "variable": info.variable,
            "meaning": info.help,
        }
        for info in all_settings()
        for path in _paths(info.path, loaded.settings)
    ]


def _short(row: Mapping[str, Any]) -> dict[str, str]:
    found = {"setting": row["setting"], "value": _text(row["value"]), "source": row["source"]}
    return {**found, "meaning": row["meaning"]}


def _paths(path: tuple[str, ...], settings: object) -> list[tuple[str, ...]]:
    """Return the paths of a setting: one, or one for each service or task that is configured."""
    if "*" not in path:
        return [path]
    at = path.index("*")
    above, below = path[:at], path[at + 1 :]
    named = [(*above, name, *below) for name in _value(settings, above)]
    return [found for each in named for found in _paths(each, settings)]


def _value(found: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        found = found[name] if isinstance(found, dict) else getattr(found, name)
    return found


def _text(found: object) -> str:
    """Write a value as TOML does; empty for none."""
    if found is None:
        return ""
    if isinstance(found, tuple | list | dict):
        return json.dumps(found, default=str)
    return json.dumps(found) if isinstance(found, bool | int | float) else str(found)


def page() -> str:
    """Write docs/settings.md."""
    from dragoman.server.settings_reference import all_settings, section_help

    lines = [
        "# Settings",
        "",
        "<!-- Generated: `dragoman settings --markdown > docs/settings.md`. -->",
        "",
        "Sources, later ones win: defaults, the TOML file (`--config`), environment variables,",
        "flags. An unknown name is an error. `dragoman settings` prints every value and its",
        "source. A setting `a.b` is `b` in the section `[a]` of the file, and `DRAGOMAN_A__B` in",
        "the environment. Lists and tables in the environment are JSON. Times are in seconds.",
    ]
    for section, found in groupby(all_settings(), lambda info: _heading(info.path)):
        name = section.partition(".")[0]
        lines += ["", f"## {section}", ""]
        lines += [section_help()[name], ""] if name in section_help() else []
        lines += ["| setting | type | default | meaning |", "| --- | --- | --- | --- |"]
        lines += [_line(info) for info in found]
    return "\n".join(lines) + "\n"


def _heading(path: tuple[str, ...]) -> str:
    return ".".join(path[:-1]).replace("*", "NAME") or "Broker"


def _line(info: "SettingInfo") -> str:
    default = f"`{_text(info.default)}`" if _text(info.default) else ""
    return f"| `{info.path[-1]}` | {info.kind} | {default} | {info.help} |"
