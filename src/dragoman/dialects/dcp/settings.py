"""What a deployment may decide about DCP, with defaults that DagBox's own peers can live with."""

from collections.abc import Mapping
from typing import Final

from dragoman.dialects.dcp.wire import WIDE
from dragoman.model.terms import Terms
from dragoman.model.value import field, value

#: The text lets requests be lost, so nothing waits for the disk; requests wait for workers.
TERMS: Final = Terms(patience=60.0, strict=False, balance="least_recently_used")


@value
class DcpSettings:
    """All spans are in seconds."""

    terms: Terms = TERMS
    #: Other terms for single services, by service name.
    services: Mapping[str, Terms] = field(default_factory=dict)
    #: The heartbeat interval "agreed upon with the broker".
    beat_every: float = 1.0
    #: So many silent intervals make an idle worker lost. DagBox pings after a time-out of its own,
    #: so this is generous.
    missed_allowed: int = 10
    #: The same for a worker that computes: DagBox's send nothing meanwhile, so this has to exceed
    #: the longest job. One whose process died is found sooner, by sending to it.
    missed_allowed_busy: int = 600
    #: How long one of our own workers may hold a request in silence before it is asked whether it
    #: has it at all: DCP confirms nothing, and a connection that breaks takes messages with it.
    poll_every: float = 10.0
    #: Whether a ping of a busy worker asks for one more request, as the text says.
    ping_asks_for_work: bool = True
    #: Whether a plain client may name another client, who then gets the reply.
    takes_named_clients: bool = False
    #: What a client that knows no notes hears when its request comes to nothing: an `empty` reply
    #: (its metadata, no data), or nothing at all (`silent`), as from DagBox.
    faults: str = "empty"
    #: The type frame for a peer that was never heard. DagBox's abort on any width but their own.
    width: int = WIDE
    #: Peers whose width is remembered; the one not heard for longest is forgotten.
    remembered_peers: int = 100_000
