"""The gate: it checks every event between a peer's dialect and the core. Pure.

The transport proves a key, the registry names its principal, the policy decides. An allowed event
gets its principal. A refused one becomes an `EventDenied`: the core records it and the dialect
answers the peer. Nothing is dropped.
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
from dragoman.model.content import Call
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
from dragoman.security.identities import KeyLookup, PeerIdentities, PeerIdentity
from dragoman.security.keys import NO_KEY
from dragoman.security.name_owners import MOST_PEERS, NameOwners, is_chosen
from dragoman.security.policy import Decision, DecisionCache, Policy
from dragoman.security.roles import matches
from dragoman.security.verbs import (
    AccessRequest,
    Verb,
    access_request_for,
    canonical_service,
    verb_for,
)
from dragoman.security.verdicts import NameTakeover, refused, takeover_of, with_principal

_REMEMBERED: Final = 20_000
#: The events that reach the core instead of one event.
Checked = tuple[Event, ...]


@value
class JobOwner:
    """The principal that submitted a job, and the job's service."""

    principal: Principal
    service: ServiceName


OwnerOf = Callable[[JobId], JobOwner | None]
TaskIn = Callable[[Body], str]
CallIn = Callable[[Body], Call | None]


class Gate:
    """Decides about every event of a peer."""

    def __init__(
        self,
        keys: KeyLookup,
        policy: Policy,
        *,
        owner_of: OwnerOf,
        names: NameOwners | None = None,
        task_in: TaskIn = lambda body: "",
        call_in: CallIn = lambda body: None,
    ) -> None:
        self._keys = keys
        self._owner_of = owner_of
        #: Reads the task in a request's body; the dialect may name a different one beside it.
        self._task_in = task_in
        #: Decodes a whole request, where a decision needs its arguments.
        self._call_in = call_in
        self.names = names or NameOwners()
        #: The last key of each peer.
        self.key_of_peer: dict[PeerId, str] = {}
        self.meter = Meter()
        self._decisions = DecisionCache(policy)
        #: Decisions about submissions, by roles, service, task and target.
        self._submit_decisions: dict[tuple[object, ...], tuple[Verb, Decision]] = {}
        self._identities = PeerIdentities(keys, policy)

    # --- identity -----------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._decisions.policy

    def change_policy(self, policy: Policy) -> None:
        """Put another policy in force, from the next message on."""
        self._decisions = DecisionCache(policy)
        self._submit_decisions.clear()
        self._identities = PeerIdentities(self._keys, policy)

    def roles_of(self, principal: Principal, peer: PeerId | None = None) -> tuple[str, ...]:
        """Return the roles of a principal, with those that the last key of a peer adds."""
        key = self.key_of_peer.get(peer, NO_KEY) if peer is not None else NO_KEY
        return self._identities.roles_of(principal, key)

    def keys_changed(self) -> None:
        """Forget all identities: the registry has changed."""
        self._identities.forget()

    def identity_of(self, key: str, now: float) -> PeerIdentity:
        """Return the identity behind a key."""
        return self._identities.of_key(key, now)

    def identify(self, key: str, peer: PeerId, now: float) -> PeerIdentity | Noted:
        """Return the identity of a peer, or the refusal if the peer's name is another's."""
        identity = self.identity_of(key, now)
        # A refused identity gets no name, but must not pass for the name's owner either.
        is_valid = identity.fault is None
        taken = self._claim_name(peer, identity) if is_valid else self._foreign_name(peer, identity)
        if taken is not None:
            return Noted(Kind.DENIED, peer, taken.message, principal=identity.principal)
        if not is_valid:
            return identity
        if len(self.key_of_peer) > MOST_PEERS:
            self.key_of_peer.clear()
        self.key_of_peer[peer] = key
        reason = self.meter.connect(identity.principal, peer, identity.allowance, now)
        if reason:
            return replace(identity, fault=Fault(FaultCode.QUEUE_FULL, reason))
        return identity

    # --- decisions ----------------------------------------------------------------------------

    def decide(self, key: str, request: AccessRequest, now: float) -> Decision:
        """Decide about a request that is no event, such as an HTTP view."""
        identity = self.identity_of(key, now)
        if identity.fault is not None:
            return Decision(False, identity.fault.message)
        return self._decisions.decide(identity.roles, request)

    def check(self, event: Event, identity: PeerIdentity, now: float) -> Checked:
        """Return what the core gets for an event: the event with its principal, or its refusal."""
        if identity.fault is not None:
            return (refused(event, identity.principal, identity.fault),)
        return _CHECKS[type(event)](self, event, identity, now)

    def may_see(self, peer: PeerId, record: Record) -> bool:
        """Tell whether a subscribed peer may see a record."""
        principal = self.names.owner_of(peer)
        if principal is None:
            return False
        roles = self.roles_of(principal, peer)
        # A record without a service needs a rule for every service.
        request = AccessRequest(Verb.EVENTS, canonical_service(record.service) or EVERY_SERVICE)
        return self._decisions.decide(roles, request).is_allowed

    def is_worker(self, peer: PeerId, name: WorkerName) -> bool:
        """Tell whether a peer's principal may be the worker of a name, and owns that name."""
        principal = self.names.owner_of(peer)
        if principal is None or self.names.worker_owner(name) not in (None, principal):
            return False
        bound = self._keys.entry_of(principal).names
        request = AccessRequest(Verb.REGISTER, "", names=(name,))
        roles = self.roles_of(principal, peer)
        return self._decisions.decide(roles, request).is_allowed and (
            not bound or matches(name, bound)
        )

    def may_subscribe(self, peer: PeerId, identity: PeerIdentity) -> Noted:
        """Decide about a subscription: the record's kind is ALLOWED or DENIED."""
        decision = self._decide(identity, AccessRequest(Verb.EVENTS))
        kind = Kind.ALLOWED if decision.is_allowed else Kind.DENIED
        detail = f"{Verb.EVENTS}: {decision.reason}"
        return Noted(kind, peer, detail, principal=identity.principal)

    def _decide(self, identity: PeerIdentity, request: AccessRequest) -> Decision:
        if identity.fault is not None:
            return Decision(False, identity.fault.message)
        return self._decisions.decide(identity.roles, request)

    def _submitted(self, event: JobSubmitted, identity: PeerIdentity, now: float) -> Checked:
        fault = self._claim_name(event.client, identity) or self.submission_fault(event, identity)
        fault = fault or self._limit_fault(identity, now, event)
        if fault is not None:
            return (refused(event, identity.principal, fault),)
        return (with_principal(event, identity.principal),)

    def submission_fault(self, event: JobSubmitted, identity: PeerIdentity) -> Fault | None:
        """Return why the policy denies a submission; None: it allows it."""
        if identity.fault is not None:
            return identity.fault
        found = (self._submit_fault(event, task, identity) for task in self._tasks_of(event))
        return next((fault for fault in found if fault is not None), None)

    def _tasks_of(self, event: JobSubmitted | JobForwarded) -> tuple[str, ...]:
        """Return the task a request names, and the task in its body if it differs."""
        inside = self._task_in(event.body)
        if inside in ("", event.task):
            return (event.task,)
        return (event.task, inside) if event.task else (inside,)

    def _submit_fault(self, event: JobSubmitted, task: str, identity: PeerIdentity) -> Fault | None:
        # Most clients repeat the same request: one look-up instead of a decision.
        known = (identity.roles, event.service, task, event.target)
        found = self._submit_decisions.get(known)
        if found is None:
            found = self._decide_submit(event, task, identity)
            if len(self._submit_decisions) >= _REMEMBERED:
                self._submit_decisions.clear()
            self._submit_decisions[known] = found
        verb, decision = found
        if not decision.is_allowed:
            if verb is Verb.INVENTORY and self._is_own_entry(event, task, identity):
                return None
            return Fault(FaultCode.DENIED, decision.reason)
        bound = identity.entry.names
        if verb is Verb.INVENTORY and bound and not _is_one_of(event.client, bound):
            names = ", ".join(bound)
            return Fault(FaultCode.DENIED, f"{name_of(event.client)} is not one of {names}")
        return None

    def _is_own_entry(self, event: JobSubmitted, task: str, identity: PeerIdentity) -> bool:
        """Tell whether a worker asks for its own entry of the inventory, and may have it."""
        request = AccessRequest(Verb.INVENTORY_OWN, canonical_service(event.service))
        call = self._call_in(event.body) if task.lower() == "get_inventory" else None
        if call is None or not self._decisions.decide(identity.roles, request).is_allowed:
            return False
        name = call.kwargs.get("name", call.args[0] if call.args else None)
        return (
            isinstance(name, str)
            and name_of(event.client).removesuffix("-NFPClient") == name
            and self.is_worker(event.client, WorkerName(name))
        )

    def _decide_submit(
        self, event: JobSubmitted | JobForwarded, task: str, identity: PeerIdentity
    ) -> tuple[Verb, Decision]:
        request = access_request_for(event.service, task, event.target)
        return request.verb, self._decisions.decide(identity.roles, request)

    def _limit_fault(
        self, identity: PeerIdentity, now: float, submitted: JobSubmitted | None = None
    ) -> Fault | None:
        reason = self.meter.request(identity.principal, identity.allowance, now)
        if not reason and submitted is not None:
            size = submitted.body.size
            reason = self.meter.submit(identity.principal, identity.allowance, submitted.job, size)
        return Fault(FaultCode.QUEUE_FULL, reason) if reason else None

    def _result_requested(
        self, event: ResultRequested, identity: PeerIdentity, now: float
    ) -> Checked:
        reason = self.meter.result(identity.principal, identity.allowance, now)
        if reason:
            return (refused(event, identity.principal, Fault(FaultCode.QUEUE_FULL, reason)),)
        return self._about_job(event, identity, now, Verb.READ_OWN, Verb.READ_OTHERS)

    def _cancelled(self, event: JobCancelled, identity: PeerIdentity, now: float) -> Checked:
        return self._about_job(event, identity, now, Verb.CANCEL, Verb.CANCEL_OTHERS)

    def _about_job(
        self,
        event: ResultRequested | JobCancelled,
        identity: PeerIdentity,
        now: float,
        own: Verb,
        others: Verb,
    ) -> Checked:
        """Decide about an existing job: the verb depends on its owner."""
        found = self._owner_of(event.job)
        verb = own if found is None or found.principal == identity.principal else others
        service = canonical_service(found.service) if found else ""
        decision = self._decisions.decide(identity.roles, AccessRequest(verb, service))
        fault = self._claim_name(event.client, identity)
        if not decision.is_allowed:
            fault = fault or Fault(FaultCode.DENIED, decision.reason)
        fault = fault or self._limit_fault(identity, now)
        if fault is not None:
            return (refused(event, identity.principal, fault),)
        allowed = Noted(
            Kind.ALLOWED,
            event.client,
            f"{verb}: {decision.reason}",
            job=event.job,
            service=found.service if found else None,
            principal=identity.principal,
        )
        return (allowed, with_principal(event, identity.principal))

    def _input_received(self, event: InputReceived, identity: PeerIdentity, now: float) -> Checked:
        """Allow input only to one's own job: input is part of the request."""
        found = self._owner_of(event.job)
        fault = self._claim_name(event.client, identity)
        if found is not None and found.principal != identity.principal:
            fault = fault or Fault(FaultCode.DENIED, "only the submitter may send input to a job")
        service = canonical_service(found.service) if found else ""
        decision = self._decisions.decide(
            identity.roles, AccessRequest(verb_for(service, ""), service)
        )
        if not decision.is_allowed:
            fault = fault or Fault(FaultCode.DENIED, decision.reason)
        fault = fault or self._limit_fault(identity, now)
        if fault is not None:
            return (refused(event, identity.principal, fault),)
        return (with_principal(event, identity.principal),)

    def _worker_joined(self, event: WorkerJoined, identity: PeerIdentity, now: float) -> Checked:
        fault = self._register_fault(event, identity)
        if fault is not None:
            return (refused(event, identity.principal, fault),)
        fault = self._claim_name(event.worker, identity)
        chosen = is_chosen(event.name, event.worker, event.dialect)
        owner = self.names.claim_worker(
            event.name, event.worker, identity.principal, is_chosen=chosen
        )
        if owner is not None:
            message = f"take-over refused: the worker name {event.name} belongs to {owner}"
            fault = fault or Fault(FaultCode.DENIED, message)
        if fault is not None:
            return (refused(event, identity.principal, fault),)
        return (with_principal(event, identity.principal),)

    def _register_fault(self, event: WorkerJoined, identity: PeerIdentity) -> Fault | None:
        for service in event.services or (ServiceName(""),):
            request = AccessRequest(Verb.REGISTER, service, names=(event.name,))
            decision = self._decisions.decide(identity.roles, request)
            if not decision.is_allowed:
                return Fault(FaultCode.DENIED, decision.reason)
            if identity.entry.services and not matches(service, identity.entry.services):
                services = ", ".join(identity.entry.services)
                message = f"{identity.principal} was enrolled for {services}, not for {service}"
                return Fault(FaultCode.DENIED, message)
        bound = identity.entry.names
        # The broker made up this name, so the rules about names do not apply.
        chosen = is_chosen(event.name, event.worker, event.dialect)
        if bound and chosen and not matches(event.name, bound):
            names = ", ".join(bound)
            message = f"{identity.principal} was enrolled as {names}, not as {event.name}"
            return Fault(FaultCode.DENIED, message)
        return None

    def _forwarded(self, event: JobForwarded, identity: PeerIdentity, now: float) -> Checked:
        for task in self._tasks_of(event):
            _, decision = self._decide_submit(event, task, identity)
            if not decision.is_allowed:
                return (
                    refused(event, identity.principal, Fault(FaultCode.DENIED, decision.reason)),
                )
        return self._worker_event(event, identity, now)

    def _worker_event(
        self,
        event: CreditGranted | BeatReceived | ReplyReceived | JobForwarded,
        identity: PeerIdentity,
        now: float,
    ) -> Checked:
        """Allow an event of a worker from the principal that owns its name."""
        owner = self.names.owner_of(event.worker)
        if owner == identity.principal:
            return (event,)
        # Also refused if the worker's name has no owner: that worker has not joined.
        return (refused(event, identity.principal, takeover_of(event.worker, owner)),)

    def _peer_left(self, event: PeerLeft, identity: PeerIdentity, now: float) -> Checked:
        fault = self._claim_name(event.peer, identity)
        if fault is not None:
            return (refused(event, identity.principal, fault),)
        self.meter.forget_peer(identity.principal, event.peer)
        return (event,)

    def _noted(self, event: Noted, identity: PeerIdentity, now: float) -> Checked:
        """Allow records of a side; publishing an event needs the right to register."""
        if event.kind == Kind.PUBLISHED:
            decision = self._decisions.decide(
                identity.roles, AccessRequest(Verb.REGISTER, event.service or "")
            )
            if not decision.is_allowed:
                return (
                    refused(event, identity.principal, Fault(FaultCode.DENIED, decision.reason)),
                )
        return (with_principal(event, identity.principal),)

    def _claim_name(self, peer: PeerId, identity: PeerIdentity) -> Fault | None:
        """Claim a peer name; return the fault if another principal owns it."""
        owner = self.names.claim_peer(peer, identity.principal)
        return None if owner is None else takeover_of(peer, owner)

    def _foreign_name(self, peer: PeerId, identity: PeerIdentity) -> NameTakeover | None:
        """Return the fault if another principal owns a peer name; claim nothing."""
        owner = self.names.owner_of(peer)
        return None if owner in (None, identity.principal) else takeover_of(peer, owner)


def _is_one_of(peer: PeerId, names: tuple[str, ...]) -> bool:
    name = name_of(peer)
    return matches(name, names) or matches(name.removesuffix("-NFPClient"), names)


_CHECKS: Final[dict[type, Callable[[Gate, Any, PeerIdentity, float], tuple[Event, ...]]]] = {
    JobSubmitted: Gate._submitted,
    JobCancelled: Gate._cancelled,
    ResultRequested: Gate._result_requested,
    InputReceived: Gate._input_received,
    WorkerJoined: Gate._worker_joined,
    JobForwarded: Gate._forwarded,
    CreditGranted: Gate._worker_event,
    BeatReceived: Gate._worker_event,
    ReplyReceived: Gate._worker_event,
    PeerLeft: Gate._peer_left,
    Noted: Gate._noted,
}
