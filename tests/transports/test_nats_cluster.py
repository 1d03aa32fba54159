"""A nats-server as a member of a cluster: its configuration, and three real servers."""

import asyncio
import json
from pathlib import Path

import nats
import nats.errors
import pytest
from tests.canary_watch import Canary
from tests.transports.nats_members import nats_trio

from dragoman.sdk.issuing import new_authority, new_certificate
from dragoman.testing.fabric import free_port
from dragoman.transports.nats_cluster import (
    LEDGER_USER,
    NatsCluster,
    RouteTls,
    check_name,
    check_place,
    check_token,
    cluster_lines,
    ledger_password,
)
from dragoman.transports.nats_server import NatsServer


def test_the_ledger_is_synced_and_its_users_have_passwords_of_their_own(
    tmp_path: Path, canary: Canary
) -> None:
    token = canary("cluster token")
    member = NatsCluster("c", "a", "127.0.0.1:6222", ("b:6222",), token)
    text = "\n".join(cluster_lines(member, tmp_path))
    assert "sync_interval: always" in text
    assert f'user: {LEDGER_USER}, password: "{ledger_password(token)}"' in text
    assert token not in text
    assert text.count(ledger_password(token)) == 1


@pytest.mark.parametrize("text", ["", "a b", 'x"', "a" * 65, "ü"])
def test_a_name_that_could_leave_its_place_in_the_file_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no name"):
        check_name(text)


@pytest.mark.parametrize("text", ["b", "b:", 'b"}:1', "b:x", "b c:1"])
def test_an_address_needs_a_host_and_a_port(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        check_place(text)


@pytest.mark.parametrize("text", ["short", 'with"quote', "with space", "back\\slash"])
def test_a_token_that_is_refused_is_not_shown(text: str) -> None:
    with pytest.raises(ValueError, match="token") as caught:
        check_token(text)
    assert text not in str(caught.value)


def make_tls(folder: Path) -> RouteTls:
    authority = new_authority("test")
    own = new_certificate(authority, "node", ("127.0.0.1",))
    files = RouteTls(folder / "own.pem", folder / "own.key", folder / "authority.pem")
    for path, text in zip(files, (own.certificate, own.secret, authority.certificate), strict=True):
        path.write_text(text)
    return files


@pytest.mark.interop
@pytest.mark.parametrize("is_secured", [False, True])
def test_three_servers_keep_a_stream_that_survives_one(
    tmp_path: Path, is_secured: bool, canary: Canary
) -> None:
    tls = make_tls(tmp_path) if is_secured else None
    folders = [tmp_path / str(n) for n in range(3)]

    async def story() -> None:
        async with nats_trio(folders, canary("cluster token"), tls) as (servers, client):
            js = client.jetstream(timeout=5)
            assert (await js.publish("s", b"1")).seq == 1
            await servers[0].stop()
            async with asyncio.timeout(30):
                while True:
                    try:
                        assert (await js.publish("s", b"2", headers={"Nats-Msg-Id": "2"})).seq == 2
                        break
                    except (nats.errors.Error, TimeoutError):
                        await asyncio.sleep(0.1)

    asyncio.run(story())


@pytest.mark.interop
def test_without_the_token_nothing_connects(tmp_path: Path, canary: Canary) -> None:
    token = canary("cluster token")

    async def story() -> None:
        place = f"127.0.0.1:{free_port()}"
        server = NatsServer(tmp_path, cluster=NatsCluster("c", "a", place, (), token))
        await server.start()

        for secret in ({}, {"user": "route", "pass": token}, {"auth_token": token}):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            await reader.readline()
            writer.write(f"CONNECT {json.dumps(secret)}\r\nPING\r\n".encode())
            assert b"Authorization Violation" in await reader.readline()
            writer.close()
            await writer.wait_closed()
        await server.stop()

    asyncio.run(story())
