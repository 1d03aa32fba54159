"""A secured broker with every dialect in this process, and what it has on record."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.security.test_live_security import Site

from dragoman import Client
from dragoman.dialects.peer_sides import Unsupported
from dragoman.model.record import Record
from dragoman.sdk.errors import DragomanError
from dragoman.testing.harness import LocalBroker

#: What a client raises if it gets no result.
REFUSALS = (DragomanError, TimeoutError, OSError, Unsupported)
POLICY = """
[roles.resizer]
verbs = ["submit", "read-own", "cancel"]
services = ["resize"]
targets = ["any"]

[roles.lifter]
verbs = ["register"]
services = ["lift-*"]

[limits."flooder-*"]
requests_per_second = 5
"""


def attacked_site(folder: Path) -> Site:
    """Make a site with the roles and limits of these tests."""
    site = Site(folder)
    with (site.folder / "policy.toml").open("a") as file:
        file.write(POLICY)
    return site


def position(broker: LocalBroker) -> int:
    """Return the last sequence number of the ledger."""
    loop = broker.server.loop
    assert loop is not None
    return loop.ledger.last_seq


def records(broker: LocalBroker, *kinds: str, after: int = 0) -> list[Record]:
    """Return the records of some kinds."""
    loop = broker.server.loop
    assert loop is not None
    return [record for record in loop.ledger.read(after) if record.kind in kinds]


def refusals_of(broker: LocalBroker, principal: str, after: int = 0) -> list[Record]:
    """Return the recorded refusals of a principal."""
    found = records(broker, "refused", "denied", "rejected", after=after)
    return [record for record in found if record.principal == principal]


def troubles(broker: LocalBroker, dialect: str) -> int:
    """Count the connections that the listeners of a dialect refused."""
    loop = broker.server.loop
    assert loop is not None
    names = [name for name in loop.links.by_name if name.startswith(dialect)]
    return sum(sum(loop.links.by_name[name].refused.values()) for name in names)


def is_refused(client: Client, *args: Any, **options: Any) -> bool:
    """Tell whether a call got no result."""
    target, arguments = options.pop("target", "any"), options.pop("arguments", {})
    try:
        client.options(timeout=options.pop("timeout", 3), target=target, **options).call(
            *args, **arguments
        )
    except REFUSALS:
        return True
    return False


def nothing_of(broker: LocalBroker, principal: str, kinds: Iterable[str], after: int) -> bool:
    """Tell whether no record of these kinds names a principal."""
    return not [r for r in records(broker, *kinds, after=after) if r.principal == principal]
