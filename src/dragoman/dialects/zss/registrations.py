"""SMI, the service management interface of ZSS: instances register, stay and leave.

SMI looks like a service on the wire. It is registration, so it is not among the services.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from dragoman.core.events import BeatReceived, Event, PeerLeft, WorkerJoined
from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.zss import oldpack
from dragoman.dialects.zss.instances import ServiceInstances
from dragoman.dialects.zss.settings import ZssSettings
from dragoman.dialects.zss.statuses import denied_payload, refusal_payload
from dragoman.dialects.zss.wire import NAME, REP, ZssMessage, read_names
from dragoman.model.fault import Fault
from dragoman.model.names import JobId, PeerId, WorkerName, name_of

SMI: Final = "SMI"
_LONGEST: Final = 256
_MOST_CREDIT: Final = 10_000


class ServiceRegistrations:
    """What the instances of services say of themselves."""

    def __init__(self, instances: ServiceInstances, settings: ZssSettings) -> None:
        self._instances = instances
        self._settings = settings
        #: Instances that read parts: they can get input and cancels.
        self.reads_parts: set[PeerId] = set()
        #: Instances that answer a poll about a request that they do not hold.
        self.answers_polls: set[PeerId] = set()

    def receive(
        self, peer: PeerId, verb: str, payload: bytes, extra: Mapping[str, object]
    ) -> list[Event] | None:
        """Handle a request to SMI; None: it failed."""
        act = _VERBS.get(verb.upper())
        return None if act is None else act(self, peer, _sid(payload), extra)

    def forget(self, peer: PeerId) -> None:
        """Forget an instance."""
        self._instances.forget(peer)
        self._forget_abilities(peer)

    def _forget_abilities(self, peer: PeerId) -> None:
        self.reads_parts.discard(peer)
        self.answers_polls.discard(peer)

    def _up(self, peer: PeerId, sid: str, extra: Mapping[str, object]) -> list[Event] | None:
        # An SDK worker that declares what it holds starts a new session under its old identity.
        is_new = self._instances.up(peer, sid) or _holds(extra) is not None
        return [self._joined(peer, extra)] if is_new else None

    def _heartbeat(self, peer: PeerId, sid: str, extra: Mapping[str, object]) -> list[Event] | None:
        """Keep an instance, or register it: services never send UP a second time."""
        if self._instances.is_up(peer, sid):
            return [BeatReceived(peer)]
        return self._up(peer, sid, extra)

    def _down(self, peer: PeerId, sid: str, extra: Mapping[str, object]) -> list[Event] | None:
        if not self._instances.down(peer, sid):
            return None
        if self._instances.services(peer):
            return [self._joined(peer, extra)]
        self._forget_abilities(peer)
        return [PeerLeft(peer, "went down", self._settings.grace)]

    def _joined(self, peer: PeerId, extra: Mapping[str, object]) -> WorkerJoined:
        settings, reads_parts = self._settings, extra.get("partial") is True
        if reads_parts:
            self.reads_parts.add(peer)
        if extra.get("polls") is True:
            self.answers_polls.add(peer)
        credit, labels = extra.get("credit"), extra.get("labels")
        pairs = labels.items() if isinstance(labels, dict) else ()
        # "Workers will handle at most one request a time": only an SDK worker declares another.
        allowed = min(max(credit, 1), _MOST_CREDIT) if type(credit) is int else settings.credit
        return WorkerJoined(
            peer,
            WorkerName(name_of(peer)),
            self._instances.services(peer),
            credit=allowed,
            credit_returns=True,
            beat_every=settings.beat_every,
            missed_allowed=settings.missed_allowed,
            can_cancel=reads_parts,
            labels={str(key): label for key, label in pairs if isinstance(label, str)},
            holds=_holds(extra),
            dialect=NAME,
        )


def _holds(extra: Mapping[str, object]) -> frozenset[JobId] | None:
    """Return the jobs that an SDK worker declares to hold; None: it declares nothing."""
    holds = extra.get("holds")
    if holds == 0:
        return frozenset()
    return frozenset(map(JobId, read_names(holds))) if isinstance(holds, list) else None


def _sid(payload: bytes) -> str:
    """Read the sid in the payload of an SMI request."""
    try:
        sid = oldpack.decode(payload)
    except ValueError as error:
        raise MalformedMessage(f"the payload is {error}") from None
    if not isinstance(sid, str) or not 0 < len(sid) <= _LONGEST or not sid.isprintable():
        raise MalformedMessage("the payload of an SMI request must be the service's sid, as text")
    return sid


_VERBS: Final[
    dict[
        str,
        Callable[[ServiceRegistrations, PeerId, str, Mapping[str, object]], list[Event] | None],
    ]
] = {
    "UP": ServiceRegistrations._up,
    "DOWN": ServiceRegistrations._down,
    "HEARTBEAT": ServiceRegistrations._heartbeat,
}


# --- answers ------------------------------------------------------------------------------------


def smi_failed(m: ZssMessage, detail: str = "") -> ZssMessage:
    """Write SMI's answer to a request that failed."""
    payload = refusal_payload(500, detail)
    return replace(m, kind=REP, identity=None, status=b"500", payload=payload)


def smi_denied(m: ZssMessage, fault: Fault) -> ZssMessage:
    """Write SMI's answer to a request that the policy refused: 500 with the reason."""
    return replace(smi_failed(m), payload=denied_payload(fault))
