"""The files of a broker, for commands that work on them whether it runs or not."""

import os
import time
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
NAMESPACE = typer.Option(
    "", "--namespace", help="A namespace of the settings; without: the default one."
)


def find_settings(config: Path | None, data: Path | None, namespace: str = "") -> "BrokerSettings":
    """Read the settings of a broker, or of one of its namespaces.

    Relative paths in them start at its working folder.
    """
    # Imported here: the settings take as long to load as the rest of a command.
    from dragoman.server.settings_sources import load

    found = load(config, data=data) if data is not None else load(config)
    if not namespace:
        return found
    from dragoman.server.namespace_settings import find_namespace

    return find_namespace(found, namespace)


def open_namespace_registry(
    config: Path | None, data: Path | None, namespace: str
) -> "KeyRegistry":
    """Read the key registry of a namespace, to add keys: no other namespace may have them."""
    from dragoman.security.namespace_keys import NamespaceKeys
    from dragoman.server.namespace_settings import DEFAULT_NAMESPACE, all_namespaces

    name = namespace or DEFAULT_NAMESPACE
    found = all_namespaces(find_settings(config, data))
    registries = {each: open_registry(own) for each, own in found.items()}
    keys = NamespaceKeys(registries, time.time)
    registry = (
        registries[name]
        if name in registries
        else open_registry(find_settings(config, data, namespace))
    )
    registry.elsewhere = lambda key: keys.is_elsewhere(name, key)
    return registry


def make_data_folder(data: Path) -> None:
    """Create the data folder of a broker. Raises ValueError if it cannot be used."""
    try:
        data.mkdir(0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"the data folder {data} is a file; name a folder with --data") from None
    except OSError as error:
        raise ValueError(_unusable(data, error.strerror or str(error))) from None
    if not os.access(data, os.W_OK | os.X_OK):
        raise ValueError(_unusable(data, "you may not write to it"))


def _unusable(data: Path, reason: str) -> str:
    return f"cannot use the data folder {data}: {reason}; name another with --data"


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
