"""Settings of a DCP link. The defaults work with DagBox's own peers."""

from collections.abc import Mapping
from typing import Final, Literal

from dragoman.dialects.dcp.wire import WIDE
from dragoman.model.setting import setting
from dragoman.model.terms import Terms
from dragoman.model.value import field, value

#: The text allows lost requests, so sends do not wait for the disk. Requests wait for workers.
TERMS: Final = Terms(patience=60.0, strict=False, balance="least_recently_used")


@value
class DcpSettings:
    """Policy and bounds of one link. Times are in seconds."""

    terms: Terms = TERMS
    #: Other terms for single services, by service name.
    services: Mapping[str, Terms] = field(default_factory=dict)
    beat_every: float = setting(default=1.0, gt=0, help="Seconds between two heartbeats.")
    missed_allowed: int = setting(
        default=10,
        ge=1,
        help="Silent heartbeat intervals after which an idle worker is lost. DagBox's workers ping "
        "by a timeout of their own, so this is generous.",
    )
    missed_allowed_busy: int = setting(
        default=600,
        ge=1,
        help="The same for a busy worker. DagBox's workers send nothing while they compute, so "
        "this must exceed the longest job.",
    )
    poll_every: float = setting(
        default=10.0,
        gt=0,
        help="Seconds that an SDK worker may hold a request in silence before the broker polls it.",
    )
    ping_asks_for_work: bool = setting(
        default=True,
        help="Whether a ping of a busy worker requests more work, as in the protocol text.",
    )
    takes_named_clients: bool = setting(
        default=False,
        help="Whether a client may name another client, which then gets the reply, as in the "
        "protocol text. If not, the sender's address replaces the name. Workers always may.",
    )
    faults: Literal["empty", "silent"] = setting(
        default="empty",
        help="What a client without notes receives if its request fails: an `empty` reply, or "
        "nothing (`silent`), as from DagBox.",
    )
    #: Width of the type frame for an unknown peer. DagBox's peers abort on any other width.
    width: int = WIDE
    #: Peers whose width is remembered; the least recently active is forgotten first.
    remembered_peers: int = 100_000
