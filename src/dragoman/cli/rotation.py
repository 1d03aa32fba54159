"""Rotation of the broker's CURVE key: both keys are served for a while, then only the new one.

The settings file is written by hand, so only its `curve` line is edited. The result is parsed and
compared first: every other setting must be unchanged.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dragoman.security.files import replace_file

if TYPE_CHECKING:
    from dragoman.server.settings import BrokerSettings

_CURVE: Final = re.compile(r"^curve[ \t]*=.*$", re.MULTILINE)


def begin(settings: "BrokerSettings", config: Path | None) -> str:
    """Make another key and put both into the settings; return the next steps as text.

    Raises ValueError, with nothing changed, if the settings cannot be edited.
    """
    from dragoman.cli.init import write_curve_pair

    files = settings.credentials.curve
    if not files:
        raise ValueError("the broker has no CURVE key yet; `dragoman init` makes one")
    if len(files) > 1:
        raise ValueError(
            "the broker has two CURVE keys already; finish that rotation first, with --finish"
        )
    path = _free_name(files[0])
    text = _edited(config, (path, files[0]))
    public = write_curve_pair(path)
    _write(config, text)
    return (
        f"wrote {path}; {config} serves both keys\n"
        "1. Restart the broker: it reads its keys only at the start.\n"
        f"2. Give peers the new key, {public}\n   one by one; their URLs stay as they are.\n"
        "3. When no peer uses the old key any more:  dragoman keys rotate broker --finish"
    )


def finish(settings: "BrokerSettings", config: Path | None) -> str:
    """Keep only the new key in the settings, and rename the old key's file."""
    files = settings.credentials.curve
    if len(files) < 2:
        raise ValueError("no rotation is under way: the broker has one CURVE key")
    _write(config, _edited(config, files[:1]))
    retired = files[1].with_name(f"retired-{files[1].name}")
    files[1].rename(retired)
    return (
        f"{config} serves {files[0]} alone; the old key is {retired}\n"
        "Restart the broker; then remove that file."
    )


def _free_name(old: Path) -> Path:
    number = 2
    while (path := old.with_name(f"broker-{number}.key_secret")).exists():
        number += 1
    return path


def _edited(config: Path | None, curve: tuple[Path, ...]) -> str:
    """Return the text of the settings with other keys. Raises ValueError."""
    if config is None:
        raise ValueError("give the broker's settings file with --config")
    line = f"curve = {json.dumps([str(each) for each in curve])}"
    before = config.read_text()
    text = _CURVE.sub(lambda _: line, before, count=1)
    if not _means(text, before, curve):
        raise ValueError(
            f"cannot edit the `curve` line of {config}; set it by hand under [credentials]: {line}"
        )
    return text


def _means(text: str, before: str, curve: tuple[Path, ...]) -> bool:
    """Return whether only the CURVE keys differ between two texts of the settings."""
    try:
        new, old = tomllib.loads(text), tomllib.loads(before)
    except tomllib.TOMLDecodeError:
        return False
    old.setdefault("credentials", {})["curve"] = [str(each) for each in curve]
    return new == old


def _write(config: Path | None, text: str) -> None:
    assert config is not None
    replace_file(config, text.encode(), config.stat().st_mode & 0o777)
