"""Another CURVE key for the broker: both serve for a while, then the new one alone.

An endpoint has one key, so the new one gets endpoints of its own. The settings are edited
line by line, and only if they mean afterwards exactly what they should: somebody wrote them by
hand, and whatever else is in them stays as it is.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dragoman.security.files import replace_file

if TYPE_CHECKING:
    from dragoman.server.settings import Settings

LISTENERS: Final = ("nfp", "dcp", "zss", "zss_backend")
_PORT: Final = re.compile(r":(\d+)$")
_MOST: Final = 65_535


def begin(settings: "Settings", config: Path | None, distance: int) -> str:
    """Make another key and have the settings serve both; return what is left to do.

    Raises ValueError, with nothing changed, if the settings cannot be edited.
    """
    from dragoman.cli.init import write_curve_pair

    files = settings.credentials.curve
    if not files:
        raise ValueError("the broker has no CURVE key yet; `dragoman init` makes one")
    if len(files) > 1:
        raise ValueError(
            "the broker has two CURVE keys already; end that rotation with --finish first"
        )
    path = _free_name(files[0])
    moved = {name: _beside(each, distance) for name, each in _endpoints(settings).items()}
    wanted = {name: f"{new},{old}" for name, (new, old) in moved.items()}
    text = _edited(config, wanted, (path, files[0]))
    public = write_curve_pair(path)
    _write(config, text)
    new = "\n".join(f"     {name:12}{first}" for name, (first, _) in moved.items())
    return (
        f"wrote {path}; {config} serves both keys\n"
        "1. Restart the broker: it takes keys and endpoints at the start only.\n"
        f"2. Give peers the new key, {public}\n   and its endpoints:\n{new}\n"
        "3. When none uses the old ones any more:  dragoman keys rotate broker --finish"
    )


def finish(settings: "Settings", config: Path | None) -> str:
    """Have the settings serve the new key alone, and put the old one aside."""
    files = settings.credentials.curve
    if len(files) < 2:
        raise ValueError("no rotation is under way: the broker has one CURVE key")
    wanted = {name: each.partition(",")[0] for name, each in _endpoints(settings).items()}
    _write(config, _edited(config, wanted, files[:1]))
    retired = files[1].with_name(f"retired-{files[1].name}")
    files[1].rename(retired)
    return (
        f"{config} serves {files[0]} alone; the old key is {retired}\n"
        "Restart the broker; then remove that file."
    )


def _endpoints(settings: "Settings") -> dict[str, str]:
    """Return the endpoints that have CURVE."""
    said = {name: getattr(settings.listen, name) for name in LISTENERS}
    plain = settings.credentials.plain
    return {name: each for name, each in said.items() if each != "off" and name not in plain}


def _beside(endpoint: str, distance: int) -> tuple[str, str]:
    """Return a new endpoint for an old one, and the old one."""
    found = _PORT.search(endpoint)
    port = int(found[1]) + distance if found else 0
    if not found or not distance < port <= _MOST:
        raise ValueError(f"{endpoint}: there is no port {distance} above it; say --distance")
    return f"{endpoint[: found.start()]}:{port}", endpoint


def _free_name(old: Path) -> Path:
    number = 2
    while (path := old.with_name(f"broker-{number}.key_secret")).exists():
        number += 1
    return path


def _edited(config: Path | None, listen: dict[str, str], curve: tuple[Path, ...]) -> str:
    """Return the text of the settings with other endpoints and keys. Raises ValueError."""
    if config is None:
        raise ValueError("say with --config which settings the broker has")
    text = config.read_text()
    for name, said in listen.items():
        text = _line(text, "listen", name, f'"{said}"')
    keys = ", ".join(f'"{each}"' for each in curve)
    text = _line(text, "credentials", "curve", f"[{keys}]")
    if not _means(text, config, listen, curve):
        lines = [f'{name} = "{said}"' for name, said in listen.items()]
        raise ValueError(
            f"{config} is written in a way that cannot be edited here; put in yourself: "
            f"{'; '.join(lines)}; curve = [{keys}]"
        )
    return text


def _line(text: str, section: str, name: str, said: str) -> str:
    """Give a name in a section another value; add it if it is not there."""
    head, mark, rest = text.partition(f"\n[{section}]\n")
    if not mark:
        return f"{text.rstrip()}\n\n[{section}]\n{name} = {said}\n"
    body, bracket, tail = rest.partition("\n[")
    pattern = re.compile(rf"^{name}[ \t]*=.*$", re.MULTILINE)
    line = f"{name} = {said}"
    body, count = pattern.subn(lambda _: line, body, count=1)
    if not count:
        body = f"{line}\n{body}"
    return head + mark + body + bracket + tail


def _means(text: str, config: Path, listen: dict[str, str], curve: tuple[Path, ...]) -> bool:
    """Tell whether the text says what it should, and everything else as before."""
    import tomllib

    try:
        new, old = tomllib.loads(text), tomllib.loads(config.read_text())
    except tomllib.TOMLDecodeError:
        return False
    for said in (new, old):
        said.setdefault("listen", {})
        said.setdefault("credentials", {})
    old["listen"].update(listen)
    old["credentials"]["curve"] = [str(each) for each in curve]
    return new == old


def _write(config: Path | None, text: str) -> None:
    assert config is not None
    replace_file(config, text.encode(), config.stat().st_mode & 0o777)
