"""Senders of mutated messages."""

from random import Random

import pytest

from dragoman.testing.fuzz.attack import ATTACK_TARGETS
from dragoman.testing.fuzz.http import LAST
from dragoman.testing.fuzz.senders import batches
from dragoman.testing.gauges import read_metrics
from dragoman.testing.harness import LocalBroker

LINK_OF = {"nats": "ncl"}


def test_a_request_that_must_be_the_last_ends_its_connection() -> None:
    found = batches([[b"a"], [b"b", LAST], [b"c"], [b"d"], [b"e"]], 2)
    assert found == [([b"a", b"b"], True), ([b"c", b"d"], False), ([b"e"], False)]


@pytest.mark.interop
@pytest.mark.parametrize("link", ATTACK_TARGETS)
def test_every_message_of_a_sender_arrives(link: str) -> None:
    chance = Random(1)
    grammar = ATTACK_TARGETS[link].grammar(chance, None)
    with LocalBroker("http", "zss", link, zss={"grace": 0.1}) as broker:
        sender = ATTACK_TARGETS[link].sender(broker.endpoints[link], chance)
        fired = sender.send([grammar.message() for _ in range(100)])
        received = 0.0
        while link != "http" and received < fired:
            metrics = read_metrics(broker.endpoints["http"])
            received = metrics["dragoman_link_received", LINK_OF.get(link, link)]
        sender.close()
    assert fired > 50
