"""Peers without a right to connect: bad keys, no keys, false brokers, and many at once.

Such a peer gets no answer from the core. The listener counts each refusal; `dragoman links` and the
metrics show the counts.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.security.attacks.attack_table import tried_in
from tests.security.attacks.attacked_site import (
    REFUSALS,
    attacked_site,
    is_refused,
    nothing_of,
    position,
    troubles,
)
from tests.security.test_live_security import Site, lifting, until

from dragoman import Client
from dragoman.cli.broker_files import find_settings
from dragoman.cli.keys import authority
from dragoman.sdk.credentials import read_credentials, write_credentials
from dragoman.sdk.issuing import new_authority, new_credentials
from dragoman.security.keys import KeyState
from dragoman.testing.harness import LocalBroker

pytestmark = pytest.mark.interop

MMI = "mmi.service.broker"
STATES = [KeyState.UNKNOWN, KeyState.PENDING, KeyState.EXPIRED, KeyState.REVOKED]
STRANGERS = 40


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return attacked_site(tmp_path_factory.mktemp("strangers"))


@pytest.fixture(scope="module")
def broker(site: Site) -> Iterator[LocalBroker]:
    with site.broker() as running:
        yield running


def tries(broker: LocalBroker, dialect: str, name: str, key: Path | None) -> None:
    """Ask, or register where there are no clients. Fails if it works."""
    if dialect == "ncl":
        worker = lifting(broker, dialect, name, key)
        with pytest.raises(REFUSALS):
            worker.start(timeout=5)
        return
    with (
        contextlib.suppress(*REFUSALS),
        Client(broker.url(dialect), name, credentials=key) as client,
    ):
        assert is_refused(client, MMI, "show_workers", timeout=3)


def key_in(site: Site, state: KeyState, name: str) -> Path:
    """Make an operator's key in a state. The broker's authority has signed it."""
    model, now = read_credentials(site.folder / "admin.key"), time.time()
    settings = find_settings(Path(site.config), None)
    token = site.registry.new_token(name, now=now, roles=("operator",), expires_at=now - 1)
    made, keys = new_credentials(name, model.server, authority(settings), token)
    if state is not KeyState.UNKNOWN:
        kept = KeyState.PENDING if state is KeyState.PENDING else KeyState.ALLOWED
        ends = now - 1 if state is KeyState.EXPIRED else 0.0
        for key in keys:
            site.registry.add(key, name, now=now, roles=("operator",), state=kept, expires_at=ends)
    if state is KeyState.REVOKED:
        site.registry.revoke(name)
    path = site.folder / f"{name}.key"
    write_credentials(path, made)
    return path


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("dialect", tried_in("bad key"))
def test_a_key_that_is_not_allowed_gets_nothing(
    site: Site, broker: LocalBroker, dialect: str, state: KeyState
) -> None:
    name = f"{state}-{dialect}"
    key, before, counted = key_in(site, state, name), position(broker), troubles(broker, dialect)
    tries(broker, dialect, name, key)
    assert nothing_of(broker, name, ["submitted", "joined", "allowed"], before)
    if dialect != "ncl":
        until(lambda: troubles(broker, dialect) > counted, 10)


@pytest.mark.parametrize("dialect", tried_in("no key"))
def test_a_peer_without_a_key_gets_nothing(broker: LocalBroker, dialect: str) -> None:
    before, counted = position(broker), troubles(broker, dialect)
    tries(broker, dialect, f"keyless-{dialect}", None)
    assert nothing_of(broker, "anonymous", ["submitted", "joined", "allowed"], before)
    if dialect != "ncl":
        until(lambda: troubles(broker, dialect) > counted, 10)


@pytest.mark.parametrize("dialect", tried_in("false broker"))
def test_a_peer_does_not_talk_to_a_broker_with_another_key(
    site: Site, broker: LocalBroker, dialect: str
) -> None:
    """The peer trusts another broker: its key, and its authority."""
    name, before = f"careful-{dialect}", position(broker)
    own = read_credentials(site.key(name, "operator"))
    other = new_authority("other").certificate
    path = site.folder / f"{name}-misled.key"
    write_credentials(path, replace(own, server="x" * 40, authority=other))
    tries(broker, dialect, name, path)
    assert nothing_of(broker, name, ["submitted", "joined", "allowed"], before)


@pytest.mark.parametrize("dialect", tried_in("flood of strangers"))
def test_a_known_client_is_served_among_strangers(
    site: Site, broker: LocalBroker, dialect: str
) -> None:
    link = "nats" if dialect == "ncl" else dialect
    host, _, port = broker.endpoints[link].partition("://")[2].partition(":")
    key, counted = site.key(f"known-{dialect}", "operator"), troubles(broker, dialect)
    done = threading.Event()

    def crowd() -> None:
        """Half say nothing, half speak another protocol."""
        with contextlib.ExitStack() as silent:
            for n in range(STRANGERS):
                line = socket.create_connection((host, int(port)), timeout=20)
                silent.enter_context(line)
                if n % 2:
                    with contextlib.suppress(OSError):
                        line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            done.wait(30)

    strangers = threading.Thread(target=crowd)
    strangers.start()
    try:
        # NCL has no clients; its listener has strangers, and another dialect is served.
        url = broker.url("nfp" if dialect == "ncl" else dialect)
        with Client(url, f"known-{dialect}", credentials=key) as known:
            for _ in range(5):
                known.options(timeout=20).call(MMI, "show_workers")
    finally:
        done.set()
        strangers.join(30)
    if dialect != "ncl":
        until(lambda: troubles(broker, dialect) > counted, 10)
