"""Settings of the ZSS links. The defaults suit the published peers."""

from collections.abc import Mapping
from typing import Final

from dragoman.model.setting import setting
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
    names: Mapping[str, str] = setting(
        default_factory=dict, help="Service names by sid, for services whose names have capitals."
    )
    beat_every: float = setting(
        default=1.0, gt=0, help="Seconds between two heartbeats, as in both service libraries."
    )
    poll_every: float = setting(
        default=10.0,
        gt=0,
        help="Seconds that an SDK worker may hold a request in silence before the broker polls it.",
    )
    missed_allowed: int = setting(
        default=3, ge=1, help="Silent heartbeat intervals after which an instance is lost."
    )
    credit: int = setting(
        default=1,
        ge=1,
        help="Requests that an instance may hold unless it declares its own number. The protocol "
        "text assumes one at a time; upstream's broker sends any number.",
    )
    grace: float = setting(
        default=1.0,
        ge=0,
        help="Seconds that an instance's requests wait after DOWN for replies already on the way.",
    )
    traces: bool = setting(
        default=True, help="Whether to add the suite's `micro.*` times to headers."
    )
