"""The gate: everything a peer says passes it between its dialect and the core. Pure.

The transport says which key was proved, the registry whom it speaks for, the policy what they may
do. What is let through carries its principal; what is not becomes `Refused`, which the core
records and the peer's dialect says in its own words. Nothing is dropped.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from dragoman.core.events import (
    BeatReceived,
    CreditGranted,
    Event,
    InputReceived,
    JobCancelled,
    JobForwarded,
    JobSubmitted,
    Noted,
    PeerLeft,
    ReplyReceived,
    ResultRequested,
    WorkerJoined,
)
from dragoman.model.body import Body
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import (
    EVERY_SERVICE,
    JobId,
    PeerId,
    Principal,
    ServiceName,
    WorkerName,
    name_of,
)
from dragoman.model.record import Kind, Record
from dragoman.model.value import value
from dragoman.security.allowances import Meter
from dragoman.security.names import MOST_PEERS, NameOwners, is_chosen
from dragoman.security.policy import Decision, DecisionCache, Policy
from dragoman.security.roles import matches
from dragoman.security.speakers import KeyLookup, PeerIdentities, PeerIdentity
from dragoman.security.verbs import (
    AccessRequest,
    Verb,
    access_request_for,
    canonical_service,
    verb_for,
)
from dragoman.security.verdicts import NameTakeover, refused, takeover_of, with_principal

#: Peers of the process itself (the application behind the HTTP door) say this for a key.
BUILTIN_KEY: Final = "house:"
_REMEMBERED: Final = 20_000


@value
class JobOwner:
    """Whose a job is, and of which service."""

    principal: Principal
    service: ServiceName


OwnerOf = Callable[[JobId], JobOwner | None]
TaskIn = Callable[[Body], str]


class Gate:
    """Decides about everything that peers say."""

    def __init__(
        self,
        keys: KeyLookup,
        policy: Policy,
        *,
        owner_of: OwnerOf,
        names: NameOwners | None = None,
        task_in: TaskIn = lambda body: "",
    ) -> None:
        self._keys = keys
        self._owner_of = owner_of
        #: Reads the task out of a request's body, where a peer may say another one beside it.
        self._task_in = task_in
        self.names = names or NameOwners()
        #: Peers of the process itself, which may see everything.
        self.house: set[PeerId] = set()
        #: The key that each peer last spoke with.
        self.spoke: dict[PeerId, str] = {}
        self.meter = Meter()
        self._decisions = DecisionCache(policy)
        #: What was decided about work, by roles, service, task and target.
        self._worked_out: dict[tuple[object, ...], tuple[Verb, Decision]] = {}
        self._speakers = PeerIdentities(keys, policy)

    # --- who ----------------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._decisions.policy

    def change_policy(self, policy: Policy) -> None:
        """Put another policy in force, from the next message on."""
        self._decisions = DecisionCache(policy)
        self._worked_out.clear()
        self._speakers = PeerIdentities(self._keys, policy)

    def roles_of(self, principal: Principal) -> tuple[str, ...]:
        """Return the roles of a principal, whatever key it speaks with."""
        return self._speakers.roles_of(principal)

    def keys_changed(self) -> None:
        """Ask the registry again about everybody."""
        self._speakers.forget()

    def speaker(self, key: str, now: float) -> PeerIdentity:
        """Say who proved a key."""
        return self._speakers.of_key(key, now)

    def hear(self, key: str, peer: PeerId, now: float) -> PeerIdentity | Noted:
        """Let somebody speak as a peer; a name that is another's is refused before it is read."""
        speaker = self.speaker(key, now)
        # Who may not be heard gets no name, but must not be taken for its owner either.
        is_heard = speaker.fault is None
        theft = self._trespass(peer, speaker) if is_heard else self._belied(peer, speaker)
        if theft is not None:
            return Noted(Kind.DENIED, peer, theft.message, principal=speaker.principal)
        if not is_heard:
            return speaker
        if len(self.spoke) > MOST_PEERS:
            self.spoke.clear()
        self.spoke[peer] = key
        why_not = self.meter.hear(speaker.principal, peer, speaker.allowance, now)
        if why_not:
            return replace(speaker, fault=Fault(FaultCode.QUEUE_FULL, why_not))
        return speaker

    # --- what ---------------------------------------------------------------------------------

    def ask(self, key: str, ask: AccessRequest, now: float) -> Decision:
        """Decide about one thing that is no event: for those who look at the broker directly."""
        speaker = self.speaker(key, now)
        if speaker.fault is not None:
            return Decision(False, speaker.fault.message)
        return self._decisions.decide(speaker.roles, ask)

    def judge(self, event: Event, speaker: PeerIdentity, now: float) -> tuple[Event, ...]:
        """Return what the core is to hear instead of an event: it, with its principal, or a no."""
        if speaker.fault is not None:
            return (refused(event, speaker.principal, speaker.fault),)
        return _JUDGES[type(event)](self, event, speaker, now)

    def sees(self, peer: PeerId, record: Record) -> bool:
        """Tell whether a peer that subscribed may see a record."""
        if peer in self.house:
            return True
        principal = self.names.owner_of(peer)
        if principal is None:
            return False
        roles = self._speakers.roles_of(principal)
        # What belongs to no service is for those who may see all of them.
        ask = AccessRequest(Verb.EVENTS, canonical_service(record.service) or EVERY_SERVICE)
        return self._decisions.decide(roles, ask).is_allowed

    def is_worker(self, peer: PeerId, name: WorkerName) -> bool:
        """Tell whether who speaks as a peer may be the worker of a name, and nobody else is."""
        principal = self.names.owner_of(peer)
        if principal is None or self.names.worker_owner(name) not in (None, principal):
            return False
        bound = self._keys.entry_of(principal).names
        ask = AccessRequest(Verb.REGISTER, "", names=(name,))
        roles = self._speakers.roles_of(principal)
        return self._decisions.decide(roles, ask).is_allowed and (not bound or matches(name, bound))

    def may_subscribe(self, peer: PeerId, speaker: PeerIdentity) -> Noted:
        """Decide about a subscription; the kind of what is returned is the decision."""
        decision = self._decide(speaker, AccessRequest(Verb.EVENTS))
        kind = Kind.ALLOWED if decision.is_allowed else Kind.DENIED
        words = f"{Verb.EVENTS}: {decision.reason}"
        return Noted(kind, peer, words, principal=speaker.principal)

    def _decide(self, speaker: PeerIdentity, ask: AccessRequest) -> Decision:
        if speaker.fault is not None:
            return Decision(False, speaker.fault.message)
        return self._decisions.decide(speaker.roles, ask)

    def _submitted(self, event: JobSubmitted, who: PeerIdentity, now: float) -> tuple[Event, ...]:
        fault = self._trespass(event.client, who)
        for task in self._tasks_of(event):
            fault = fault or self._why_no_work(event, task, who)
        fault = fault or self._too_much(who, now, event)
        if fault is not None:
            return (refused(event, who.principal, fault),)
        return (with_principal(event, who.principal),)

    def _tasks_of(self, event: JobSubmitted | JobForwarded) -> tuple[str, ...]:
        """Return the task a request names, and the one in its body if that is another."""
        inside = self._task_in(event.body)
        if inside in ("", event.task):
            return (event.task,)
        return (event.task, inside) if event.task else (inside,)

    def _why_no_work(self, event: JobSubmitted, task: str, who: PeerIdentity) -> Fault | None:
        # Most clients ask for the same again and again: one look-up instead of a question.
        known = (who.roles, event.service, task, event.target)
        found = self._worked_out.get(known)
        if found is None:
            found = self._work_out(event, task, who)
            if len(self._worked_out) >= _REMEMBERED:
                self._worked_out.clear()
            self._worked_out[known] = found
        verb, decision = found
        if not decision.is_allowed:
            return Fault(FaultCode.DENIED, decision.reason)
        bound = who.entry.names
        if verb is Verb.INVENTORY and bound and not _is_one_of(event.client, bound):
            return Fault(FaultCode.DENIED, f"{name_of(event.client)} is none of {bound}")
        return None

    def _work_out(
        self, event: JobSubmitted | JobForwarded, task: str, who: PeerIdentity
    ) -> tuple[Verb, Decision]:
        ask = access_request_for(event.service, task, event.target)
        return ask.verb, self._decisions.decide(who.roles, ask)

    def _too_much(
        self, who: PeerIdentity, now: float, submitted: JobSubmitted | None = None
    ) -> Fault | None:
        why_not = self.meter.request(who.principal, who.allowance, now)
        if not why_not and submitted is not None:
            size = submitted.body.size
            why_not = self.meter.submit(who.principal, who.allowance, submitted.job, size)
        return Fault(FaultCode.QUEUE_FULL, why_not) if why_not else None

    def _asked(self, event: ResultRequested, who: PeerIdentity, now: float) -> tuple[Event, ...]:
        why_not = self.meter.result(who.principal, who.allowance, now)
        if why_not:
            return (refused(event, who.principal, Fault(FaultCode.QUEUE_FULL, why_not)),)
        return self._about_job(event, who, now, Verb.READ_OWN, Verb.READ_OTHERS)

    def _cancelled(self, event: JobCancelled, who: PeerIdentity, now: float) -> tuple[Event, ...]:
        return self._about_job(event, who, now, Verb.CANCEL, Verb.CANCEL_OTHERS)

    def _about_job(
        self,
        event: ResultRequested | JobCancelled,
        who: PeerIdentity,
        now: float,
        own: Verb,
        others: Verb,
    ) -> tuple[Event, ...]:
        """Decide about a job that exists: it depends on whose it is."""
        found = self._owner_of(event.job)
        verb = own if found is None or found.principal == who.principal else others
        service = canonical_service(found.service) if found else ""
        decision = self._decisions.decide(who.roles, AccessRequest(verb, service))
        fault = self._trespass(event.client, who)
        if not decision.is_allowed:
            fault = fault or Fault(FaultCode.DENIED, decision.reason)
        fault = fault or self._too_much(who, now)
        if fault is not None:
            return (refused(event, who.principal, fault),)
        allowed = Noted(
            Kind.ALLOWED,
            event.client,
            f"{verb}: {decision.reason}",
            job=event.job,
            service=found.service if found else None,
            principal=who.principal,
        )
        return (allowed, with_principal(event, who.principal))

    def _given(self, event: InputReceived, who: PeerIdentity, now: float) -> tuple[Event, ...]:
        """Let input through to one's own jobs only: it is part of the request."""
        found = self._owner_of(event.job)
        fault = self._trespass(event.client, who)
        if found is not None and found.principal != who.principal:
            fault = fault or Fault(FaultCode.DENIED, "input is for the one who submitted the job")
        service = canonical_service(found.service) if found else ""
        decision = self._decisions.decide(who.roles, AccessRequest(verb_for(service, ""), service))
        if not decision.is_allowed:
            fault = fault or Fault(FaultCode.DENIED, decision.reason)
        fault = fault or self._too_much(who, now)
        if fault is not None:
            return (refused(event, who.principal, fault),)
        return (with_principal(event, who.principal),)

    def _joined(self, event: WorkerJoined, who: PeerIdentity, now: float) -> tuple[Event, ...]:
        fault = self._why_no_worker(event, who)
        if fault is not None:
            return (refused(event, who.principal, fault),)
        fault = self._trespass(event.worker, who)
        chosen = is_chosen(event.name, event.worker, event.dialect)
        owner = self.names.claim_worker(event.name, event.worker, who.principal, is_chosen=chosen)
        if owner is not None:
            words = f"take-over refused: the worker name {event.name} belongs to {owner}"
            fault = fault or Fault(FaultCode.DENIED, words)
        if fault is not None:
            return (refused(event, who.principal, fault),)
        return (with_principal(event, who.principal),)

    def _why_no_worker(self, event: WorkerJoined, who: PeerIdentity) -> Fault | None:
        for service in event.services or (ServiceName(""),):
            ask = AccessRequest(Verb.REGISTER, service, names=(event.name,))
            decision = self._decisions.decide(who.roles, ask)
            if not decision.is_allowed:
                return Fault(FaultCode.DENIED, decision.reason)
            if who.entry.services and not matches(service, who.entry.services):
                words = f"{who.principal} was enrolled for {', '.join(who.entry.services)}"
                return Fault(FaultCode.DENIED, f"{words}, not for {service}")
        bound = who.entry.names
        # A name that the broker made up says nothing, so it breaks no rule about names.
        chosen = is_chosen(event.name, event.worker, event.dialect)
        if bound and chosen and not matches(event.name, bound):
            words = f"{who.principal} was enrolled as {', '.join(bound)}, not as {event.name}"
            return Fault(FaultCode.DENIED, words)
        return None

    def _forwarded(self, event: JobForwarded, who: PeerIdentity, now: float) -> tuple[Event, ...]:
        for task in self._tasks_of(event):
            _, decision = self._work_out(event, task, who)
            if not decision.is_allowed:
                return (refused(event, who.principal, Fault(FaultCode.DENIED, decision.reason)),)
        return self._of_worker(event, who, now)

    def _of_worker(
        self,
        event: CreditGranted | BeatReceived | ReplyReceived | JobForwarded,
        who: PeerIdentity,
        now: float,
    ) -> tuple[Event, ...]:
        """Let a worker's word through: its name was proved, and it was let in by its joining."""
        owner = self.names.owner_of(event.worker)
        if owner == who.principal:
            return (event,)
        # Nobody speaks for a worker that is not there, not even if nobody else does.
        return (refused(event, who.principal, takeover_of(event.worker, owner)),)

    def _left(self, event: PeerLeft, who: PeerIdentity, now: float) -> tuple[Event, ...]:
        fault = self._trespass(event.peer, who)
        if fault is not None:
            return (refused(event, who.principal, fault),)
        self.meter.forget_peer(who.principal, event.peer)
        return (event,)

    def _noted(self, event: Noted, who: PeerIdentity, now: float) -> tuple[Event, ...]:
        """Let a side put things on record; what a worker publishes needs the right to be one."""
        if event.kind == Kind.PUBLISHED:
            decision = self._decisions.decide(
                who.roles, AccessRequest(Verb.REGISTER, event.service or "")
            )
            if not decision.is_allowed:
                return (refused(event, who.principal, Fault(FaultCode.DENIED, decision.reason)),)
        return (with_principal(event, who.principal),)

    def _trespass(self, peer: PeerId, who: PeerIdentity) -> Fault | None:
        """Say whose name somebody uses, if it is another's."""
        owner = self.names.claim_peer(peer, who.principal)
        return None if owner is None else takeover_of(peer, owner)

    def _belied(self, peer: PeerId, who: PeerIdentity) -> NameTakeover | None:
        """Say whose a name is that somebody uses who has none, if it is another's."""
        owner = self.names.owner_of(peer)
        return None if owner in (None, who.principal) else takeover_of(peer, owner)


def _is_one_of(peer: PeerId, names: tuple[str, ...]) -> bool:
    name = name_of(peer)
    return matches(name, names) or matches(name.removesuffix("-NFPClient"), names)


_JUDGES: Final[dict[type, Callable[[Gate, Any, PeerIdentity, float], tuple[Event, ...]]]] = {
    JobSubmitted: Gate._submitted,
    JobCancelled: Gate._cancelled,
    ResultRequested: Gate._asked,
    InputReceived: Gate._given,
    WorkerJoined: Gate._joined,
    JobForwarded: Gate._forwarded,
    CreditGranted: Gate._of_worker,
    BeatReceived: Gate._of_worker,
    ReplyReceived: Gate._of_worker,
    PeerLeft: Gate._left,
    Noted: Gate._noted,
}
