"""After a restart, sides learn which requests an earlier process took in and gave out.

Some wires have no job id in a reply, so their sides keep it in memory. The records have all that is
needed to build that memory again: the request, its client and its worker. Nothing is sent.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from dragoman.core.broker import Broker
from dragoman.core.recovery import open_requests, work_in_flight
from dragoman.model.content import Unmappable
from dragoman.model.names import PeerId, link_of


def resume_sides(sides: Mapping[str, Any], broker: Broker, now: float) -> None:
    """Give every open request and every dispatched job to the side of its peer."""
    for job, client, request in open_requests(broker):
        resume = _hook(sides, client, "resume_request")
        if resume is not None:
            resume(job, client, request, now)
    for work in work_in_flight(broker):
        resume = _hook(sides, work.worker, "resume_work")
        if resume is not None:
            # It had a form in this dialect when it was sent. If a new version has none, the
            # worker's lease decides about the job.
            with suppress(Unmappable):
                resume(work, now)


def _hook(sides: Mapping[str, Any], peer: PeerId, name: str) -> Any:
    return getattr(sides.get(link_of(peer)), name, None)
