"""Settings of a DCP link. The defaults work with DagBox's own peers."""

from collections.abc import Mapping
from typing import Final

from dragoman.dialects.dcp.wire import WIDE
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
    #: The heartbeat interval "agreed upon with the broker".
    beat_every: float = 1.0
    #: Silent intervals after which an idle worker is lost. DagBox's workers ping by a time-out of
    #: their own, so this is generous.
    missed_allowed: int = 10
    #: The same for a busy worker. DagBox's workers send nothing while they compute, so this must
    #: exceed the longest job. A dead process is found sooner, because sending to it fails.
    missed_allowed_busy: int = 600
    #: How long our own worker may hold a request in silence before the broker polls it. DCP
    #: confirms nothing, and a broken connection loses messages.
    poll_every: float = 10.0
    #: Whether a ping of a busy worker requests more work, as in the text.
    ping_asks_for_work: bool = True
    #: Whether a plain client may name another client, which then gets the reply.
    takes_named_clients: bool = False
    #: What a client without notes receives if its request fails: an `empty` reply (its metadata,
    #: no data), or nothing (`silent`), as from DagBox.
    faults: str = "empty"
    #: Width of the type frame for an unknown peer. DagBox's peers abort on any other width.
    width: int = WIDE
    #: Peers whose width is remembered; the least recently active is forgotten first.
    remembered_peers: int = 100_000
