"""Events over every dialect that has clients: pushed where there is a word for it, else pulled."""

import json
import threading
from collections.abc import Iterator
from typing import Any, Final

import pytest
from tests.interop.harness import Broker, Fleet, until

from dragoman import Client, Worker

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

CLIENTS: Final = ("nfp", "dcp", "zss", "memo", "http")
LINKS: Final = (*CLIENTS, "zss_backend")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("events"))
    yield fleet
    fleet.end()


@pytest.fixture(scope="module")
def broker(fleet: Fleet) -> Broker:
    ends = {n: "http://127.0.0.1:0" if n == "http" else "127.0.0.1:0" for n in LINKS}
    return fleet.broker(ends)


def url(broker: Broker, dialect: str, link: str = "") -> str:
    return f"{dialect}://{broker.endpoints[link or dialect].partition('://')[2]}"


class Listener:
    """A client that keeps what it hears."""

    def __init__(self, where: str, topic: str) -> None:
        self.heard: list[Any] = []
        self._client = Client(where)
        self._thread = threading.Thread(target=self._listen, args=(topic,), daemon=True)
        self._thread.start()

    def _listen(self, topic: str) -> None:
        for event in self._client.subscribe(topic, after=0):
            self.heard.append(event.event)
            if event.event == "over":
                return

    def close(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()
        self._client.close()


@pytest.mark.parametrize("dialect", CLIENTS)
def test_clients_of_every_dialect_hear_what_was_and_what_comes(
    broker: Broker, dialect: str
) -> None:
    topic = f"news.for-{dialect}"
    with Client(url(broker, "nfp")) as said:

        def say(event: Any) -> None:
            said.call("mmi.service.broker", "publish", topic=topic, event=event, timeout=10)

        say({"before": 1})
        listener = Listener(url(broker, dialect), topic)
        until(lambda: listener.heard == [{"before": 1}], "what was is heard", 30)
        say({"then": 2})
        until(lambda: listener.heard[1:] == [{"then": 2}], "what comes is heard", 30)
        say("over")
    listener.close()


@pytest.mark.parametrize("dialect", CLIENTS)
def test_workers_of_every_dialect_publish(broker: Broker, dialect: str) -> None:
    link = "zss_backend" if dialect == "zss" else dialect
    files = url(broker, dialect)
    worker = Worker(
        url(broker, dialect, link), f"pub-{dialect}", own_process_beats=False, files_url=files
    )
    with worker, Client(url(broker, "http")) as client:

        def there() -> bool:
            rows = client.call("mmi.service.broker", "list_services", timeout=10)
            return f"pub-{dialect}" in [row["name"] for row in rows]

        until(there, "the worker has joined", 30)
        worker.publish(f"own.{dialect}", {"by": dialect})
        feed = client.subscribe(f"own.{dialect}", after=0)
        assert next(feed).event == {"by": dialect}


@pytest.mark.parametrize("dialect", ["dcp", "memo"])
def test_the_command_line_follows_over_any_dialect(
    broker: Broker, fleet: Fleet, dialect: str
) -> None:
    where = url(broker, dialect)
    words = ["events", "broker.started", "--from", "0", "--url", where]
    shown = fleet.dragoman(*words, "--follow", "--limit", "1")
    assert shown.wait(30) == 0
    assert json.loads(shown.log.splitlines()[-1])["topic"] == "broker.started"
    assert fleet.dragoman(*words).wait(30) == 0


def test_topics_of_the_broker_are_its_own(broker: Broker) -> None:
    with Client(url(broker, "nfp")) as client, pytest.raises(Exception, match="are reserved"):
        client.call("mmi.service.broker", "publish", topic="broker.ended", event=1, timeout=10)
