"""Settings of the ZSS links. The defaults suit the published peers."""

from collections.abc import Mapping
from typing import Final

from dragoman.model.terms import Terms
from dragoman.model.value import field, value

#: As upstream's broker: no queue, 404 at once if no instance is registered, round robin. A service
#: that never answers would keep its request for ever, hence a timeout far beyond any client's.
TERMS: Final = Terms(patience=0.0, timeout=600.0, strict=False, balance="round_robin")
#: Requests to TITANIC survive client, service and broker.
TITANIC: Final = Terms(patience=86_400.0, timeout=7 * 86_400.0, balance="round_robin")


@value
class ZssSettings:
    """All times are in seconds."""

    terms: Terms = TERMS
    #: Other terms for single services (patience, balance, timeouts), by service name.
    services: Mapping[str, Terms] = field(default_factory=dict)
    titanic: Terms = TITANIC
    #: sid, in any case -> service name, for services whose names have capitals.
    names: Mapping[str, str] = field(default_factory=dict)
    #: The heartbeat interval of both service libraries.
    beat_every: float = 1.0
    #: How long an SDK worker may hold a request without a word before the broker polls it. ZSS
    #: confirms no delivery, and a broken connection loses messages.
    poll_every: float = 10.0
    #: An instance is lost after so many silent intervals. Any message counts as a heartbeat.
    missed_allowed: int = 3
    #: How many requests an instance may hold; None: any number, as upstream.
    credit: int | None = None
    #: After DOWN, how long an instance's requests wait for replies already on the way.
    grace: float = 1.0
    #: Whether to add the suite's `micro.*` times to headers.
    traces: bool = True
