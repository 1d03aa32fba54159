"""The users in a NATS server's configuration, and what the server lets them do."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import nats.errors
import pytest

from dragoman.transports.base import Sent
from dragoman.transports.nats import Nats
from dragoman.transports.nats_server import NatsServer
from dragoman.transports.nats_users import NatsAccount, NatsUser, accounts, authorization
from dragoman.transports.nkeys import Nkey

OWNER = Nkey.new()


def test_a_user_is_written_with_its_subjects() -> None:
    anna = Nkey.new()
    text = authorization(OWNER.public, [NatsUser(anna.public, ("a.>",), ("b.*", "c"))])
    assert f"{{ nkey: {OWNER.public} }}" in text
    assert f"nkey: {anna.public}, permissions" in text
    assert 'publish: { allow: ["a.>"] }' in text
    assert 'subscribe: { allow: ["b.*", "c"] }' in text


@pytest.mark.parametrize(
    "user",
    [
        NatsUser("U", ("a",), ()),
        NatsUser(OWNER.public, ('a"] } }',), ()),
        NatsUser(OWNER.public, (), ("a b",)),
    ],
)
def test_what_could_say_more_than_it_should_is_not_written(user: NatsUser) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        authorization(OWNER.public, [user])


def test_an_account_has_its_own_owner_and_users() -> None:
    owner, anna = Nkey.new(), Nkey.new()
    text = accounts([NatsAccount("acme", owner.public, (NatsUser(anna.public, ("a",), ("b",)),))])
    assert text.startswith('accounts {\n  "acme": { users = [')
    assert owner.public in text
    assert anna.public in text
    with pytest.raises(ValueError, match="cannot be written"):
        accounts([NatsAccount('a" { }', owner.public, ())])


async def _until(claim: Callable[[], bool]) -> None:
    while not claim():
        await asyncio.wait({asyncio.ensure_future(asyncio.sleep(0.02))})


@pytest.mark.interop
def test_a_server_keeps_users_to_their_subjects_and_lets_go_of_who_is_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "nats")
    anna, stranger = Nkey.new(), Nkey.new()
    users = [NatsUser(anna.public, ("to.anna.>",), ("for.anna.>",))]

    def known() -> Sequence[NatsUser]:
        return list(users)

    async def story() -> None:
        heard, wake = asyncio.Event(), asyncio.Event()
        broker = Nats("", ["to.>"], server=NatsServer(tmp_path / "nats", users=known))
        endpoint = await broker.open(heard.set)
        peer = Nats(endpoint, ["for.anna.>", "for.otto.>"], nkey=anna)
        await peer.open(wake.set)
        other = Nats(endpoint, [], nkey=stranger, connects_in_background=True)
        await other.open(wake.set)
        plain = Nats(endpoint, [], connects_in_background=True)
        await plain.open(wake.set)
        try:
            peer.send(b"to.otto.x", [b"forged", b"", b""])
            peer.send(b"to.anna.x", [b"mine", b"", b""])
            peer.flush()
            async with asyncio.timeout(10):
                await heard.wait()
                await _until(lambda: bool(other.refusal and plain.refusal))
            assert [frames[0] for _, frames in broker.drain(10)] == [b"mine"]
            assert "Authorization Violation" in other.refusal
            broker.send(b"for.otto.x", [b"not for anna", b"", b""])
            broker.send(b"for.anna.x", [b"for anna", b"", b""])
            broker.flush()
            wake.clear()
            async with asyncio.timeout(10):
                await wake.wait()
            assert [frames[0] for _, frames in peer.drain(10)] == [b"for anna"]

            users.clear()
            broker.cut(f"nkey:{anna.public}")
            async with asyncio.timeout(3.0):
                await _until(lambda: bool(peer.refusal))
            assert broker.send(b"for.anna.x", [b"", b"", b""]) is Sent.YES
        finally:
            for each in (peer, other, plain, broker):
                with contextlib.suppress(nats.errors.Error):
                    await each.close()

    asyncio.run(story())
    assert (tmp_path / "nats" / "owner.seed").stat().st_mode & 0o777 == 0o600
