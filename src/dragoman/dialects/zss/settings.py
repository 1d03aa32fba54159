"""What a deployment may decide about ZSS, with defaults that its published peers can live with."""

from collections.abc import Mapping
from typing import Final

from dragoman.model.terms import Terms
from dragoman.model.value import field, value

#: As upstream's broker: no queue, 404 at once when nobody is there, instances in turn. A service
#: that never answers would keep its request for ever, hence a time-out far beyond any client's.
TERMS: Final = Terms(patience=0.0, timeout=600.0, strict=False, balance="round_robin")
#: What is asked of TITANIC survives the client, the service and the broker.
TITANIC: Final = Terms(patience=86_400.0, timeout=7 * 86_400.0, balance="round_robin")


@value
class ZssSettings:
    """All spans are in seconds."""

    terms: Terms = TERMS
    #: Other terms for single services (patience, balance, timeouts), by service name.
    services: Mapping[str, Terms] = field(default_factory=dict)
    titanic: Terms = TITANIC
    #: sid, in any case -> the service's name in the house, where that has capitals.
    names: Mapping[str, str] = field(default_factory=dict)
    #: The heartbeat interval of both service libraries.
    beat_every: float = 1.0
    #: How long one of our own services may hold a request in silence before it is asked whether it
    #: has it at all: ZSS confirms nothing, and a connection that breaks takes messages with it.
    poll_every: float = 10.0
    #: So many silent intervals make an instance lost. Any frame counts as life.
    missed_allowed: int = 3
    #: How many requests an instance may hold; None: any number, as upstream.
    credit: int | None = None
    #: How long the requests of an instance that went DOWN wait for replies already under way.
    grace: float = 1.0
    #: Whether to add the suite's `micro.*` instants to headers.
    traces: bool = True
