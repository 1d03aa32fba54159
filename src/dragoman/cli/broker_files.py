"""The files of a broker, for commands that work on them whether it runs or not."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from dragoman.security.registry import KeyRegistry
    from dragoman.server.settings import BrokerSettings

CONFIG = typer.Option(
    None, "--config", envvar="DRAGOMAN_CONFIG", help="The broker's settings, in TOML."
)
DATA = typer.Option(
    None, "--data", envvar="DRAGOMAN_DATA", help="The broker's data folder (dragoman-data)."
)


def find_settings(config: Path | None, data: Path | None) -> "BrokerSettings":
    """Read the settings of a broker. Relative paths in them start at its working folder."""
    # Imported here: the settings take as long to load as the rest of a command.
    from dragoman.server.settings_sources import load

    return load(config, data=data) if data is not None else load(config)


def registry_file(settings: "BrokerSettings") -> Path:
    """Return the path of a broker's key registry."""
    return settings.security.registry or settings.data / "registry.json"


def policy_file(settings: "BrokerSettings") -> Path:
    """Return the path of a broker's policy."""
    return settings.security.policy or settings.data / "policy.toml"


def open_registry(settings: "BrokerSettings") -> "KeyRegistry":
    """Read a broker's key registry."""
    from dragoman.security.registry import KeyRegistry

    return KeyRegistry.open(registry_file(settings))
