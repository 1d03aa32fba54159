"""The listeners of the default namespace, at which the keys of other namespaces connect, too.

A peer proves its key, and the key's namespace gets the connection (ZeroMQ, NNG) or the request
(HTTP). From there on only the transport of that namespace knows the peer: a name, a job id or a
subscription reaches no other ledger.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import structlog

from dragoman.security.keys import brief
from dragoman.security.namespace_keys import NamespaceKeys
from dragoman.server.namespace_settings import DEFAULT_NAMESPACE
from dragoman.server.nodes import Nkeys
from dragoman.server.wiring import Admission
from dragoman.transports.base import Key
from dragoman.transports.nats_users import NatsAccount
from dragoman.web.browser_sessions import BrowserSessions

log = structlog.get_logger("dragoman.namespaces")

_HTTP: Final = "http"
_NATS: Final = "nats"


class SharedListeners:
    """Finds the transport of a key's namespace. A namespace joins it with each transport."""

    def __init__(self, keys: NamespaceKeys, sessions: BrowserSessions) -> None:
        self.keys = keys
        #: Browsers log in at the one HTTP listener, whatever their namespace.
        self.sessions = sessions
        #: The endpoints of the default namespace, as soon as they are open.
        self.endpoints: dict[str, str] = {}
        #: The transports of the default namespace that keep the connections of others, too.
        self.hosts: dict[str, Any] = {}
        #: Open transports by namespace and listener.
        self._members: dict[tuple[str, str], Any] = {}

    def member_at(self, namespace: str, listener: str) -> "SharedMember":
        """Return the place of a namespace at a listener."""
        return SharedMember(self, namespace, listener)

    def join(self, namespace: str, listener: str, transport: object) -> str:
        """Hand connections of the namespace's keys to a transport; return the endpoint."""
        self._members[namespace, listener] = transport
        return self.endpoints.get(listener, "")

    def leave(self, namespace: str, listener: str) -> None:
        """End that."""
        self._members.pop((namespace, listener), None)

    # --- keys -----------------------------------------------------------------------------------

    def owner_of(self, key: Key) -> str:
        """Return the namespace of a key. A key of two namespaces has none."""
        found = self.keys.owners_of(key) or [DEFAULT_NAMESPACE]
        if len(found) > 1:
            log.error("two namespaces have this key; revoke it", key=brief(key), namespaces=found)
            return ""
        return found[0]

    def route(self, listener: str) -> Callable[[Key], Any]:
        """Return what finds the transport of a key at a listener; None: the listener's own."""
        return lambda key: self._members.get((self.owner_of(key), listener))

    def admission(self, namespace: str, own: Admission) -> Admission:
        """Return the checks of a namespace: those of the default one are for all namespaces."""
        if namespace != DEFAULT_NAMESPACE:
            return own
        return replace(own, **self._checks(own))

    def _checks(self, own: Admission) -> dict[str, Any]:
        own_admits, own_enrol, own_check = own.admits, own.enrol, own.check_token
        assert own_admits is not None
        assert own_enrol is not None
        assert own_check is not None

        def admits(key: Key) -> bool:
            # A key of another namespace is never one of ours, even while that one is away.
            return self.owner_of(key) == DEFAULT_NAMESPACE and own_admits(key)

        def enrol(token: str, key: str, name: str) -> str:
            checks = self._http_checks(self.keys.owner_of_enrolment(token))
            return own_enrol(token, key, name) if checks is None else checks.enrol(token, key, name)

        def login(secret: str) -> str | None:
            checks = self._http_checks(self.keys.owner_of_token(secret))
            return own_check(secret) if checks is None else checks.check_token(secret)

        return {"admits": admits, "enrol": enrol, "login": login, "requests": self}

    def own_nkeys(self, namespace: str, nkeys: Nkeys) -> Nkeys:
        """Leave out nkeys that another namespace has: the NATS server takes none twice."""

        def own() -> dict[str, Sequence[str]]:
            others = self.keys.keys_elsewhere(namespace)
            found = nkeys()
            return {nkey: names for nkey, names in found.items() if f"nkey:{nkey}" not in others}

        return own

    def nats_accounts(self) -> list[NatsAccount]:
        """Return the accounts of the namespaces that use the NATS server of the default one."""
        members = (each for (_, name), each in self._members.items() if name == _NATS)
        return sorted(each.account() for each in members)

    # --- requests -------------------------------------------------------------------------------

    def app_of_key(self, key: Key) -> Any:
        """Return the web application of a key's namespace; None: that of the default one."""
        return self._app(self.owner_of(key))

    def app_of_token(self, secret: str) -> Any:
        """Return the web application of a token's namespace; None: that of the default one."""
        return self._app(self.keys.owner_of_token(secret))

    def _app(self, namespace: str) -> Any:
        found = self._members.get((namespace, _HTTP))
        return None if found is None else found.app

    def _http_checks(self, namespace: str) -> Any:
        found = self._members.get((namespace, _HTTP))
        return None if found is None else found.checks


class SharedMember:
    """The place of one namespace at one listener; its transport joins and leaves it."""

    def __init__(self, shared: SharedListeners, namespace: str, listener: str) -> None:
        self._shared = shared
        self._place = namespace, listener

    def join(self, member: object) -> str:
        """Get the connections of the namespace's keys; return the endpoint."""
        return self._shared.join(*self._place, member)

    def leave(self, member: object) -> None:
        """Get no more of them."""
        self._shared.leave(*self._place)

    def cut(self, key: Key) -> None:
        """Close the connections of a key that the listener itself has open."""
        host = self._shared.hosts.get(self._place[1])
        if host is not None:
            host.cut(key)
