"""After a restart, sides learn which requests an earlier process took in and gave out.

Some wires have no job id in a reply, so their sides keep it in memory. The fold of the records has
all that is needed to build that memory again, so no side reads the ledger on its own. Nothing is
sent. Bodies are read only for work that workers hold, and for requests when they are answered.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from dragoman.core.broker import Broker
from dragoman.core.effects import (
    Effect,
    LinkPast,
    RecoveredRequest,
    RecoveredWork,
    SendReply,
)
from dragoman.core.recovery import recovered_requests, work_in_flight
from dragoman.model.body import EMPTY, Body
from dragoman.model.content import Unmappable
from dragoman.model.names import JobId, PeerId, link_of

#: Reads the body of the record at a ledger position.
LoadBody = Callable[[int], Body | None]


class SideRecovery:
    """Gives each side its past: all that is small at once, requests when they are answered."""

    def __init__(self, sides: Mapping[str, object], broker: Broker, load_body: LoadBody) -> None:
        self._sides = sides
        self._load_body = load_body
        #: Open requests whose side has not been told yet: job -> position of the body.
        self._untold: dict[JobId, int] = {}
        self._requests: dict[str, list[RecoveredRequest]] = {}
        self._work: dict[str, list[RecoveredWork]] = {}
        self._store = broker.state.store
        self._sort(broker)

    def _sort(self, broker: Broker) -> None:
        """Sort requests and work by link; leave out links whose side needs neither."""
        for request in recovered_requests(self._store):
            link = link_of(request.client)
            if hasattr(self._sides.get(link), "restore"):
                self._requests.setdefault(link, []).append(request)
            if request.answered_at is None and self._hook(request.client, "resume_request"):
                self._untold[request.job] = request.seq
        for found in work_in_flight(broker):
            self._work.setdefault(link_of(found.work.worker), []).append(found)

    def restore(self, now: float) -> None:
        """Tell every side what it must know before the first message."""
        for link, side in self._sides.items():
            work = [self._with_body(found) for found in self._work.pop(link, ())]
            if restore := getattr(side, "restore", None):
                restore(self._past(link, work), self._load_body, now)
            if resume := getattr(side, "resume_work", None):
                for found in work:
                    # It had a form in this dialect when it was sent. If a new version has none,
                    # the worker's lease decides about the job.
                    with suppress(Unmappable):
                        resume(found.work, now)
        self._requests.clear()

    def _past(self, link: str, work: list[RecoveredWork]) -> LinkPast:
        states = self._store.peer_states
        ours = {peer: seq for peer, seq in states.items() if link_of(peer) == link}
        return LinkPast(self._store.last_seq, self._requests.get(link, ()), work, ours)

    def _with_body(self, found: RecoveredWork) -> RecoveredWork:
        work = found.work
        body = self._load_body(work.body_seq) or EMPTY if work.body_seq else work.body
        filled: RecoveredWork = replace(found, work=replace(work, body=body, body_seq=0))
        return filled

    def before(self, effect: Effect, now: float) -> None:
        """Tell a side of the request that an effect answers, if it does not know it yet."""
        if not self._untold or type(effect) is not SendReply:
            return
        job = self._store.find(effect.job)
        seq = self._untold.pop(job.id if job is not None else effect.job, 0)
        resume = self._hook(effect.client, "resume_request") if seq else None
        if resume is not None:
            resume(effect.job, effect.client, self._load_body(seq) or EMPTY, now)

    def _hook(self, peer: PeerId, name: str) -> Any:
        return getattr(self._sides.get(link_of(peer)), name, None)
