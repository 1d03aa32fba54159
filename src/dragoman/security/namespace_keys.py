"""Which namespace a key belongs to: the one whose registry has it.

A key that two registries have belongs to neither: the files were changed by hand, and a guess could
show one tenant the jobs of another. Pending keys belong to no namespace yet.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from dragoman.security.keys import KeyState
from dragoman.security.registry import KeyRegistry, RegistryError, enrolment_id

_NOT_YET: Final = frozenset({KeyState.UNKNOWN, KeyState.PENDING})


class NamespaceKeys:
    """The registries of all namespaces that share listeners. It changes none of them."""

    def __init__(self, registries: Mapping[str, KeyRegistry], now: Callable[[], float]) -> None:
        self._registries = registries
        self._now = now

    def owners_of(self, key: str) -> list[str]:
        """Return the namespaces that have a key; several are an error of the operator."""
        return [name for name in self._registries if self._has(name, key)]

    def is_elsewhere(self, namespace: str, key: str) -> bool:
        """Tell whether another namespace has a key."""
        return any(name != namespace for name in self.owners_of(key))

    def keys_elsewhere(self, namespace: str) -> set[str]:
        """Return every key that another namespace has."""
        others = (self._fresh(name) for name in self._registries if name != namespace)
        return {
            key
            for registry in others
            for key, entry in registry.entries().items()
            if entry.state not in _NOT_YET
        }

    def owner_of_token(self, secret: str) -> str:
        """Return the namespace of a bearer token that is allowed now; empty: there is none."""
        found = (
            name
            for name in self._registries
            if self._fresh(name).check_token(secret, self._now()) is not None
        )
        return next(found, "")

    def owner_of_enrolment(self, token: str) -> str:
        """Return the namespace that made a one-time token; empty: there is none."""
        id_ = enrolment_id(token)
        found = (name for name in self._registries if id_ in self._fresh(name).enrolments())
        return next(found, "") if id_ else ""

    def _has(self, namespace: str, key: str) -> bool:
        return self._fresh(namespace).state_of(key, self._now()) not in _NOT_YET

    def _fresh(self, namespace: str) -> KeyRegistry:
        """Return a registry as its file is now. A broken file leaves the last good content."""
        registry = self._registries[namespace]
        with suppress(RegistryError, OSError):
            registry.refresh(self._now())
        return registry
