"""A secured broker on a NATS server of others: it cannot know who speaks there.

The broker has no key of such a node, so the node is `anonymous`, whatever name it uses. It may do
what the policy allows to `anonymous`: by default, nothing.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.security.attacks.attacked_site import REFUSALS, position, records, refusals_of
from tests.security.test_live_security import until, workers

from dragoman import Worker
from dragoman.testing.harness import LocalBroker
from dragoman.transports.nats_server import NatsServer

pytestmark = pytest.mark.interop


@contextmanager
def nats_of_others(folder: Path) -> Iterator[str]:
    """Run a NATS server that asks nobody for a key."""
    urls: list[str] = []
    is_up, is_over = threading.Event(), threading.Event()

    async def serve() -> None:
        server = NatsServer(folder / "nats")
        await server.start()
        urls.append(server.url)
        is_up.set()
        await asyncio.to_thread(is_over.wait)
        await server.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    is_up.wait(30)
    try:
        yield urls[0]
    finally:
        is_over.set()
        thread.join(30)


def test_a_node_at_a_nats_server_of_others_is_anonymous_and_may_do_nothing(tmp_path: Path) -> None:
    with (
        nats_of_others(tmp_path) as url,
        LocalBroker(
            data=tmp_path / "data",
            listen={"nats": url, "nfp": "off"},
            security={"enabled": True},
            credentials={"plain": ["nats"]},
        ) as broker,
    ):
        before = position(broker)
        worker = Worker(url.replace("nats://", "ncl://"), service="vault", name="trusted")
        worker.task(lambda: None, name="open")
        with pytest.raises(REFUSALS):
            worker.start(timeout=8)
        until(lambda: refusals_of(broker, "anonymous", before), 5)
        assert workers(broker) == set()
        assert [r for r in records(broker, "joined") if r.worker == "trusted"] == []
