"""The settings of each namespace, from its section and its own file.

A namespace is served as a broker of its own, so it has all settings of one. It takes over how the
process works (credentials, limits, the ledger, the dialects), and nothing that belongs to a tenant:
no services, schedules, inventory, files, secrets, webhooks or issuers.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from dragoman.dialects.descriptor import Carrier
from dragoman.dialects.listeners import ALL_LISTENERS, LISTENERS, OFF
from dragoman.dialects.registry import DIALECTS
from dragoman.server.settings import BrokerSettings, Listen, NamespaceSection
from dragoman.server.settings_sources import load_file

#: The namespace of peers that are in no other one. It has the data folder itself.
DEFAULT_NAMESPACE: Final = "default"
FOLDER: Final = "namespaces"
#: Stands for the endpoint of a listener that belongs to the default namespace.
SHARED: Final = "shared"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
#: What a namespace takes over from the default one, unless its file sets it.
_TAKEN_OVER: Final = (
    *("credentials", "limits", "ledger", "drain", "largest_clock_jump", "accept_clock"),
    *(name for name in DIALECTS if name in BrokerSettings.model_fields),
)
_TAKEN_OVER_OF_SECURITY: Final = ("enabled", "audit_key")
#: What only the process as a whole has.
_OF_THE_PROCESS: Final = ("data", "cluster", "mesh", "namespaces")


def all_namespaces(settings: BrokerSettings) -> dict[str, BrokerSettings]:
    """Return the settings of every namespace by name, the default one first. Raises ValueError."""
    if settings.namespaces and settings.cluster.name:
        raise ValueError(
            "a node of a cluster has no namespaces: its ledger is one stream. Remove [namespaces]"
            " or [cluster]"
        )
    found = {DEFAULT_NAMESPACE: settings}
    for name, section in settings.namespaces.items():
        found[name] = _of_namespace(settings, name, section)
    return found


def find_namespace(settings: BrokerSettings, name: str) -> BrokerSettings:
    """Return the settings of one namespace; empty: of the default one. Raises ValueError."""
    found = all_namespaces(settings) if name else {DEFAULT_NAMESPACE: settings}
    name = name or DEFAULT_NAMESPACE
    if name not in found:
        known = ", ".join(found)
        raise ValueError(f"there is no namespace {name!r} in the settings; there are: {known}")
    return found[name]


def folder_of(settings: BrokerSettings, name: str) -> Path:
    """Return the data folder of a namespace."""
    return settings.data if name == DEFAULT_NAMESPACE else settings.data / FOLDER / name


def _of_namespace(top: BrokerSettings, name: str, section: NamespaceSection) -> BrokerSettings:
    if not _NAME.fullmatch(name) or name == DEFAULT_NAMESPACE:
        raise ValueError(
            f"{name!r} is no name for a namespace: small letters, digits and - (at most 32), and"
            f" not {DEFAULT_NAMESPACE}"
        )
    own = load_file(section.config) if section.config is not None else BrokerSettings()
    for each in _OF_THE_PROCESS:
        if each in own.model_fields_set:
            raise ValueError(f"{section.config}: {each} is of the whole broker; not in {name!r}")
    changes: dict[str, Any] = {
        each: getattr(top, each) for each in _TAKEN_OVER if each not in own.model_fields_set
    }
    security = {
        each: getattr(top.security, each)
        for each in _TAKEN_OVER_OF_SECURITY
        if each not in own.security.model_fields_set
    }
    changes["security"] = own.security.model_copy(update=security)
    changes["data"] = folder_of(top, name)
    made = own.model_copy(update=changes)
    listen = _listen(top, name, section, made)
    return made.model_copy(update={"listen": listen})


def _listen(
    top: BrokerSettings, name: str, section: NamespaceSection, own: BrokerSettings
) -> Listen:
    """Return the namespace's endpoints: its own, those that it shares, and `off`."""
    given = own.listen.model_dump(include=own.listen.model_fields_set) | section.listen
    if given.get("mesh", OFF) != OFF:
        raise ValueError(f"the namespace {name!r} cannot listen for other brokers (mesh)")
    shared = dict.fromkeys(_shared(top), SHARED) if _may_share(top, section, own) else {}
    endpoints = {each.name: OFF for each in ALL_LISTENERS} | shared | given
    if all(each == OFF for each in endpoints.values()):
        raise ValueError(
            f"no peer could reach the namespace {name!r}: give it listeners"
            f" ([namespaces.{name}.listen]), or turn security on, so that keys tell who is in it"
        )
    _check_issuers(name, own, endpoints)
    # Not checked again: `shared` is no endpoint that a file may name.
    return Listen().model_copy(update=endpoints)


def _may_share(top: BrokerSettings, section: NamespaceSection, own: BrokerSettings) -> bool:
    return section.shared and top.security.enabled and own.security.enabled


def _shared(top: BrokerSettings) -> Iterator[str]:
    """Yield the listeners of the default namespace at which every peer proves a key."""
    plain = frozenset(top.credentials.plain)
    for each in LISTENERS:
        carrier = DIALECTS[each.dialect].carrier
        has_keys = {
            Carrier.ZEROMQ: bool(top.credentials.curve) and each.name not in plain,
            Carrier.SP: top.credentials.certificate is not None and each.name not in plain,
            # Tokens and nkeys prove keys on plain connections, too.
            Carrier.HTTP: True,
            # An external server has its own users.
            Carrier.NATS: not top.listen.nats.startswith(("nats:", "tls:")),
        }
        if getattr(top.listen, each.name) != OFF and has_keys.get(carrier, False):
            yield each.name


def _check_issuers(name: str, own: BrokerSettings, endpoints: dict[str, str]) -> None:
    if own.security.issuers and endpoints["http"] == SHARED:
        raise ValueError(
            f"the namespace {name!r} has issuers of tokens, so it needs its own http listener:"
            " the shared one cannot tell whose token it is"
        )
