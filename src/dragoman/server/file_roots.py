"""The shared roots must not contain the broker's own files.

A root above the data folder would share the ledger and the registry. A writable root above the
inventory would let a client write references to secrets.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from dragoman.server.settings import BrokerSettings


def check_roots(settings: BrokerSettings) -> None:
    """Raise ValueError if a shared root contains a file or folder of the broker."""
    for name, root in settings.files.roots.items():
        real = Path(os.path.realpath(root))
        for label, path in _own_paths(settings):
            if Path(os.path.realpath(path)).is_relative_to(real):
                raise ValueError(
                    f"[files.roots] {name or '(unnamed)'} = {root} would share {path} ({label});"
                    " share another folder, or move that one out of it"
                )


def _own_paths(settings: BrokerSettings) -> Iterator[tuple[str, Path]]:
    credentials, security = settings.credentials, settings.security
    yield "the data folder", settings.data
    for folder in settings.secrets.folders:
        yield "secrets of the inventory", folder
    keys = (*credentials.curve, credentials.key, credentials.nats, security.audit_key)
    named = [("a secret key", key) for key in keys]
    named += [("the registry", security.registry), ("the policy", security.policy)]
    named += [("the inventory", settings.inventory_path)]
    yield from ((label, path) for label, path in named if path is not None)
