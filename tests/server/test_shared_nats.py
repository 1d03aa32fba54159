"""Namespaces on one NATS server: the same subject is another one in each."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dragoman.server.shared_nats import SharedNats
from dragoman.transports.nats import Nats
from dragoman.transports.nats_server import NatsServer
from dragoman.transports.nats_users import NatsAccount, NatsUser
from dragoman.transports.nkeys import Nkey

SUBJECT = "bacprotocol.node-1"


class AccountPlace:
    """The accounts of one server."""

    def __init__(self, url: str = "") -> None:
        self.url = url
        self.members: list[SharedNats] = []

    def join(self, member: SharedNats) -> str:
        self.members.append(member)
        return self.url

    def leave(self, member: SharedNats) -> None:
        self.members.remove(member)

    def accounts(self) -> Sequence[NatsAccount]:
        return [each.account() for each in self.members]


async def _next(transport: Nats, arrived: asyncio.Event) -> list[Any]:
    while not (found := list(transport.drain(10))):
        arrived.clear()
        await asyncio.wait_for(arrived.wait(), 20)
    return found


@pytest.mark.interop
def test_a_message_of_one_namespace_reaches_no_other(tmp_path: Path) -> None:
    async def story() -> None:
        place, users = AccountPlace(), {name: Nkey.new() for name in ("acme", "globex")}
        server = NatsServer(tmp_path / "nats", users=list, others=place.accounts)
        place.url = await server.start()
        links, events = {}, {name: asyncio.Event() for name in users}
        for name, nkey in users.items():
            user = NatsUser(nkey.public, (SUBJECT,), ("for.node-1",))
            links[name] = SharedNats(
                *(place, name, tmp_path / name, [SUBJECT]),
                lambda user=user: [user],  # type: ignore[misc]
                keys=lambda subject: "",
            )
            await links[name].open(events[name].set)
        assert len(place.members) == 2
        peer = Nats(server.url, ["for.node-1"], nkey=users["acme"])
        await peer.open(lambda: None)
        for body in (b"one", b"two"):
            peer.send(SUBJECT.encode(), [body, b"", b""])
        peer.flush()
        heard: list[bytes] = []
        while len(heard) < 2:
            heard += [frames[0] for _, frames in await _next(links["acme"], events["acme"])]
        assert heard == [b"one", b"two"]
        # After a message of its own, nothing else can be on the way to the other namespace.
        other = Nats(server.url, [], nkey=users["globex"])
        await other.open(lambda: None)
        other.send(SUBJECT.encode(), [b"own", b"", b""])
        other.flush()
        found = await _next(links["globex"], events["globex"])
        assert [frames[0] for _, frames in found] == [b"own"]
        for each in (peer, other, *links.values()):
            await each.close()
        assert place.members == []
        await server.stop()

    asyncio.run(story())
