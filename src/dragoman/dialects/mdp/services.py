"""The services that the broker itself serves to MDP clients: MMI (8/MMI) and Titanic (9/TSP).

A Titanic request is a job with strict terms, so the broker's own queue and ledger are its store.
The ledger keeps it: `titanic.close` cancels an open job and hides the result from MDP clients.
"""

import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from dragoman.core.effects import RequestKind, SendStatus
from dragoman.core.events import Event, JobCancelled, JobSubmitted, ResultRequested
from dragoman.dialects.base import Address, BodyCodecs, Send
from dragoman.dialects.mdp.replies import (
    ERROR,
    OK,
    UNKNOWN,
    MdpPendingRequest,
    MdpReplies,
    RequestOrigin,
)
from dragoman.dialects.mdp.settings import MdpSettings
from dragoman.dialects.mdp.wire import NAME, ClientReply, ClientRequest, encode
from dragoman.model.body import Body
from dragoman.model.content import Call
from dragoman.model.names import EVERY_SERVICE, JobId, PeerId, ServiceName, text_of
from dragoman.model.terms import Terms

_MMI: Final = "mmi."
_TITANIC: Final = "titanic."
#: The broker's built-in management service, which is no part of MMI.
MANAGEMENT: Final = "mmi.service.broker"
_NOT_IMPLEMENTED: Final = b"501"
_UUID: Final = re.compile(rb"[0-9a-zA-Z]{32}")
#: An MMI request is a job of the management service. It does not wait for the disk.
_TERMS: Final = Terms(patience=10.0, timeout=60.0, max_attempts=1, strict=False)

Received = list[Event | Send]


def is_reserved(service: str) -> bool:
    """Return whether no worker may register this service."""
    return service.startswith((_MMI, _TITANIC)) or service == EVERY_SERVICE


class MdpServices:
    """Serves the names `mmi.*` and `titanic.*`."""

    def __init__(
        self,
        codecs: BodyCodecs,
        settings: MdpSettings,
        replies: MdpReplies,
        ids: Callable[[], str],
    ) -> None:
        self._codecs = codecs
        self._settings = settings
        self._replies = replies
        self._ids = ids
        #: Closed Titanic requests, the oldest first.
        self._closed: OrderedDict[JobId, None] = OrderedDict()

    def receive(self, address: Address, client: PeerId, m: ClientRequest) -> Received | None:
        """Serve a request; None if it is for another service."""
        service = text_of(m.service)
        if service == MANAGEMENT or not service.startswith((_MMI, _TITANIC)):
            return None
        pending = MdpPendingRequest(m.service, m.version, RequestOrigin.TITANIC)
        if service == "mmi.service":
            return [self._find_service(client, m)]
        if service == "titanic.request":
            return self._store(address, client, m, pending)
        if service in ("titanic.reply", "titanic.close"):
            return self._ask(address, client, m, pending)
        return self._answer(address, pending, _NOT_IMPLEMENTED)

    def _answer(self, address: Address, pending: MdpPendingRequest, status: bytes) -> Received:
        return [Send(address, encode(pending.reply((status,))))]

    def _find_service(self, client: PeerId, m: ClientRequest) -> JobSubmitted:
        """Ask the management service for the services with workers."""
        job, sought = JobId(self._ids()), text_of(m.body[0])
        pending = MdpPendingRequest(m.service, m.version, RequestOrigin.MMI, sought)
        self._replies.expect(job, client, pending)
        body = self._codecs["local"].write_call(Call("list_services"))
        service = ServiceName(MANAGEMENT)
        return JobSubmitted(job, client, service, body, terms=_TERMS, task="list_services")

    def _store(
        self, address: Address, client: PeerId, m: ClientRequest, pending: MdpPendingRequest
    ) -> Received:
        service = text_of(m.body[0])
        if len(m.body) < 2 or not m.body[0] or is_reserved(service):
            return self._answer(address, pending, ERROR + b" name a service and a request body")
        job = JobId(self._ids())
        self._replies.expect(job, client, pending)
        body, terms = Body(NAME, m.body[1:]), self._settings.titanic
        return [JobSubmitted(job, client, ServiceName(service), body, terms=terms)]

    def _ask(
        self, address: Address, client: PeerId, m: ClientRequest, pending: MdpPendingRequest
    ) -> Received:
        is_close = m.service == b"titanic.close"
        job = JobId(text_of(m.body[0]))
        if not _UUID.fullmatch(m.body[0]) or job in self._closed:
            return self._answer(address, pending, OK if is_close else UNKNOWN)
        asked = RequestKind.CANCEL if is_close else RequestKind.RESULT
        self._replies.expect_status(job, client, asked, pending)
        return [JobCancelled(job, client) if is_close else ResultRequested(job, client)]

    def status(self, effect: SendStatus) -> ClientReply | None:
        """Encode a status; remember a Titanic request that was closed."""
        found = self._replies.status(effect)
        if found is None:
            return None
        pending, reply = found
        is_closed = effect.asked is RequestKind.CANCEL and reply.body == (OK,)
        if pending.origin is RequestOrigin.TITANIC and is_closed and effect.status is not None:
            self._closed[effect.job] = None
            if len(self._closed) > self._settings.remembered_closed:
                self._closed.popitem(last=False)
        return reply
