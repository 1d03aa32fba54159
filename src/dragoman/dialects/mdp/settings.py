"""Settings of an MDP link. The defaults work with the workers of the Guide's examples."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

from dragoman.model.setting import setting
from dragoman.model.terms import Terms
from dragoman.model.value import field, value

#: The text queues requests without a worker and lets them expire. It allows lost requests, so
#: sends do not wait for the disk.
TERMS: Final = Terms(patience=60.0, strict=False, balance="least_recently_used")
#: A Titanic request survives the client, the worker and the broker.
TITANIC: Final = Terms(patience=86_400.0, timeout=7 * 86_400.0, balance="least_recently_used")


@value
class MdpSettings:
    """Policy and bounds of one link. Times are in seconds."""

    terms: Terms = TERMS
    #: Other terms for single services, by service name.
    services: Mapping[str, Terms] = field(default_factory=dict)
    titanic: Terms = TITANIC
    patience: float = setting(
        default=60.0, ge=0, help="Seconds that a request waits if no worker can take it."
    )
    beat_every: float = setting(default=2.5, gt=0, help="Seconds between two heartbeats.")
    missed_allowed: int = setting(
        default=4, ge=1, help="Silent heartbeat intervals after which an idle worker is lost."
    )
    missed_allowed_busy: int = setting(
        default=240,
        ge=1,
        help="The same for a busy plain worker. The Guide's workers send nothing while they "
        "compute, so this must exceed the longest job.",
    )
    poll_every: float = setting(
        default=10.0,
        gt=0,
        help="Seconds that an SDK worker may hold a request in silence before the broker polls it.",
    )
    faults: Literal["empty", "silent"] = setting(
        default="empty",
        help="What a plain client receives if its request fails: an `empty` reply, or nothing "
        "(`silent`), as from the Guide's broker.",
    )
    #: Titanic requests that were closed; the oldest is forgotten first.
    remembered_closed: int = 100_000

    def terms_of(self, service: str) -> Terms:
        """Return the terms of a plain request to a service."""
        return self.services.get(service) or replace(self.terms, patience=self.patience)
