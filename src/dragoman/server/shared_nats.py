"""The NATS connection of a namespace to the server of the default namespace.

The namespace is an account of that server, with its own users. Accounts exchange no messages: a
subject means another thing in each of them.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from dragoman.transports.base import Key
from dragoman.transports.nats import Nats
from dragoman.transports.nats_server import own_nkey
from dragoman.transports.nats_users import NatsAccount, NatsUser
from dragoman.transports.tls import PeerTls


class SharedNatsServer(Protocol):
    """The server of the default namespace."""

    def join(self, member: "SharedNats") -> str:
        """Give the namespace its account; return the endpoint."""
        ...

    def leave(self, member: "SharedNats") -> None:
        """End that."""
        ...


class SharedNats(Nats):
    """Joins the server of the default namespace when it opens."""

    def __init__(
        self,
        place: SharedNatsServer,
        name: str,
        data: Path,
        subscriptions: Sequence[str],
        users: Callable[[], Sequence[NatsUser]],
        *,
        keys: Callable[[str], Key],
        tls: PeerTls | None = None,
    ) -> None:
        """Prepare; `data` is a folder for the key of the account's owner."""
        super().__init__("", subscriptions, name=f"dragoman {name}", keys=keys, tls=tls)
        self._account = name
        self._data = data
        self._place = place
        self._users = users

    def account(self) -> NatsAccount:
        """Return the account as it is now."""
        assert self._nkey is not None
        return NatsAccount(self._account, self._nkey.public, tuple(self._users()))

    async def open(self, wake: Callable[[], None]) -> str:
        """Join the server, and connect as soon as it has read its new account."""
        self._data.mkdir(0o700, parents=True, exist_ok=True)
        self._nkey = own_nkey(self._data)
        self._url = self._place.join(self)
        return await super().open(wake)

    async def close(self) -> None:
        """Disconnect, and leave the server."""
        await super().close()
        self._place.leave(self)

    def _credentials(self) -> dict[str, Any]:
        found = super()._credentials()
        if "tls" in found:
            # The server is reached by its bind address, which its certificate may not name.
            found["tls"].check_hostname = False
        return found
