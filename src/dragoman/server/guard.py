"""Security of one broker: applies the registry and the policy, and follows their files.

The guard checks the files several times a second. When a key loses its permission, its worker
sessions, subscriptions and connections end at once. Every change is recorded.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec
import structlog

from dragoman.core.events import DrainRequested, JobSubmitted, Noted
from dragoman.dialects.base import BodyCodecs
from dragoman.ledger.base import Entry
from dragoman.model.body import Body
from dragoman.model.content import Call, Unmappable
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import (
    ANONYMOUS,
    EVERY_SERVICE,
    JobId,
    PeerId,
    Principal,
    ServiceName,
    WorkerName,
)
from dragoman.model.record import Kind
from dragoman.security.allowances import UNLIMITED
from dragoman.security.files import replace_file
from dragoman.security.gate import Gate, JobOwner
from dragoman.security.issued_tokens import TokenKeys, is_issued
from dragoman.security.keys import NO_KEY, KeyChange, KeyState, brief
from dragoman.security.name_owners import NameOwners
from dragoman.security.policy_file import PolicyFile
from dragoman.security.policy_text import BadPolicy
from dragoman.security.registry import KeyRegistry, RegistryError
from dragoman.security.registry_data import Enrolment, PrincipalEntry
from dragoman.security.verbs import AccessRequest, Verb
from dragoman.server.links import BUILTIN
from dragoman.server.loop import Loop
from dragoman.server.password_logins import PasswordLogins
from dragoman.server.rejections import Rejections
from dragoman.server.settings import SecuritySection
from dragoman.services.fss import FILES
from dragoman.services.mmi import MANAGEMENT
from dragoman.services.sid import INVENTORY, is_worker
from dragoman.transports.tls import ServerTls

log = structlog.get_logger("dragoman.security")

#: The interval between checks of the files, in seconds.
EVERY: Final = 0.2
#: Seconds before a connection is closed, so that the peer gets the reason first.
_NOTICE_DELAY: Final = 0.05
#: Dialects whose sides decode the task in the body themselves.
_TASK_IS_DECODED: Final = frozenset({"nfp", "zss"})
#: The management task with the same content as each HTTP view.
_VIEW_TASKS: Final = {
    "jobs": "show_jobs",
    "why": "why",
    "metrics": "show_totals",
    "overview": "show_totals",
    "resources": "show_resources",
    **{
        task: task
        for task in ("disconnect", "drain_worker", "approve_node", "approve_key", "revoke_key")
    },
}
#: Views that need another verb than management. Records are of every service.
_VIEW_REQUESTS: Final = {
    "records": AccessRequest(Verb.EVENTS, EVERY_SERVICE),
    "events": AccessRequest(Verb.EVENTS),
    "inventory": AccessRequest(Verb.INVENTORY, INVENTORY, "show"),
    "files": AccessRequest(Verb.FILES, FILES, "list_files"),
    **{task: AccessRequest(Verb.FILES, FILES, task) for task in ("put_file", "remove_file")},
    **{v.value: AccessRequest(v) for v in (Verb.SUBMIT, Verb.READ_OTHERS, Verb.CANCEL_OTHERS)},
}
#: The wildcards of a glob.
_GLOB: Final = re.compile(r"[*?\[]")
REGISTRY_FILE: Final = "registry.json"
POLICY_FILE: Final = "policy.toml"
NAMES_FILE: Final = "names.json"


class Guard:
    """Keys, policy and name owners of one broker; `attach` puts them in force."""

    def __init__(
        self,
        settings: SecuritySection,
        data: Path,
        now: Callable[[], float],
        certificate: ServerTls | None = None,
    ) -> None:
        self._now = now
        #: Listeners follow the certificate by themselves; the guard records its changes.
        self._certificate = certificate
        self._certificate_stamp = certificate.stamp() if certificate is not None else ()
        self.registry = KeyRegistry.open(settings.registry or data / REGISTRY_FILE)
        #: The registry's keys, and the tokens of issuers that were verified.
        self.tokens = TokenKeys(self.registry)
        self._policy = PolicyFile(settings.policy or data / POLICY_FILE)
        self._names_file = data / NAMES_FILE
        self._names = NameOwners(self._is_gone)
        self._names.restore(_read_names(self._names_file))
        self._loop: Loop | None = None
        self._gate: Gate | None = None
        self._watching: asyncio.Task[None] | None = None
        self._saving: asyncio.Task[None] | None = None
        self._reads = -1
        self._principals: dict[str, PrincipalEntry] = {}
        self._enrolments: dict[str, Enrolment] = {}
        self._trouble = ""
        self._refused_enrolments = Rejections()
        self._refused_tokens = Rejections()
        #: Logins of people with a name and a password.
        self.passwords = PasswordLogins(self.registry, self.refresh, now, self.report_token)

    # --- queries of listeners -------------------------------------------------------------------

    def admits(self, key: str) -> bool:
        """Tell whether a key may connect; keep an unknown key for approval."""
        if self.registry.is_stale:
            # The key may have been allowed or revoked a moment ago. Its first connection must
            # succeed, and a revoked one must not get in because the file was not read yet.
            self.refresh()
        state = self.tokens.state_of(key, self._now())
        if state is KeyState.UNKNOWN and not is_issued(key):
            self.registry.add_pending(key, self._now(), "connected")
        return state is KeyState.ALLOWED

    def refused(self, key: str, source: str) -> bool:
        """Keep the name and address that a key's peer shows; tell whether it may be approved."""
        self.registry.describe_pending(key, source)
        state = self.tokens.state_of(key, self._now())
        return state in (KeyState.UNKNOWN, KeyState.PENDING)

    def check_token(self, secret: str) -> str | None:
        """Return the key of a bearer token that is allowed now."""
        key = self.registry.check_token(secret, self._now())
        if key is None and self.registry.is_stale:
            self.refresh()
            key = self.registry.check_token(secret, self._now())
        return key

    def enrol(self, token: str, key: str, name: str) -> str:
        """Allow a key by a one-time token; return its principal. Records a refusal."""
        try:
            policy = self._policy.policy
            principal = self.registry.enrol(token, key, self._now(), name, policy=policy)
        except RegistryError as error:
            if self._refused_enrolments.should_record(PeerId("http/enrol"), self._now()):
                detail = f"enrolment of {brief(key)[:100]}: {error}"
                self._submit(Noted(Kind.DENIED, detail=detail[:500]))
            raise
        self.refresh()
        return principal

    def principal_of(self, key: str) -> str:
        """Return the principal of a key."""
        return self.tokens.principal_of(key)

    def may_view(self, key: str, what: str) -> str:
        """Return why a key may not see an HTTP view; empty: it may."""
        decision = self.gate.decide(key, _view_request(what), self._now())
        return "" if decision.is_allowed else decision.reason

    def nkeys(self) -> dict[str, tuple[str, ...]]:
        """Return the node names of every nkey that is allowed now."""
        now, found = self._now(), {}
        for key, entry in self.registry.entries().items():
            scheme, _, nkey = key.partition(":")
            if scheme == "nkey" and entry.principal and entry.state_at(now) is KeyState.ALLOWED:
                names = self.registry.entry_of(entry.principal).names
                plain = (name for name in names if not _GLOB.search(name))
                found[nkey] = tuple(dict.fromkeys([entry.principal, *plain]))
        return found

    def is_worker(self, client: str, name: str) -> bool:
        """Tell whether a client has proved that it is a worker, which may have its secrets."""
        return is_worker(client, name) and self.gate.is_worker(PeerId(client), WorkerName(name))

    def scheduled_fault(self, event: JobSubmitted) -> Fault | None:
        """Return why the principal of a schedule may not submit its job now; None: it may."""
        keys = self._keys_of(event.principal)
        found = [self.gate.identity_of(key, self._now()) for key in keys]
        if not found:
            return Fault(FaultCode.DENIED, f"{event.principal} has no key here")
        # One valid key is enough: the principal could submit the job itself.
        identity = next((each for each in found if each.fault is None), found[0])
        return self.gate.submission_fault(event, identity)

    def others_fault(self, principal: Principal, service: str) -> Fault | None:
        """Return why a principal may not change jobs of others of a service; None: it may."""
        request = AccessRequest(Verb.CANCEL_OTHERS, service)
        keys = self._keys_of(principal)
        found = [self.gate.decide(key, request, self._now()) for key in keys]
        if any(each.is_allowed for each in found):
            return None
        reason = found[0].reason if found else f"{principal} has no key here"
        return Fault(FaultCode.DENIED, reason)

    def _keys_of(self, principal: Principal) -> list[str]:
        own = [*self.registry.keys_of(principal), *self.tokens.tokens_of(principal)]
        return [NO_KEY] if principal == ANONYMOUS else own

    @property
    def gate(self) -> Gate:
        """The gate in force."""
        assert self._gate is not None, "the guard is not attached"
        return self._gate

    # --- start and stop -----------------------------------------------------------------------

    def attach(self, loop: Loop, codecs: BodyCodecs) -> None:
        """Check every message of the loop's links at the gate."""
        self._loop = loop
        self._gate = gate = Gate(
            self.tokens,
            self._policy.policy,
            owner_of=self._owner_of,
            names=self._names,
            task_in=lambda body: task_in(codecs, body),
            call_in=lambda body: call_in(codecs, body),
        )
        self._restore_owners(loop, gate)
        loop.links.secure(gate)
        loop.feed.may_see = gate.may_see
        loop.listeners.append(self._durable)
        self.registry.refresh(self._now())
        self._remember()
        self.registry.on_change(self._keys_changed)
        for link in loop.links.by_name.values():
            if link.name != BUILTIN and not hasattr(link.transport, "key_of"):
                log.warning("this link proves no keys: its peers are anonymous", link=link.name)
        log.info("security is on", keys=len(self.registry.entries()), policy=str(self._policy.path))

    def _restore_owners(self, loop: Loop, gate: Gate) -> None:
        """Restore the owners of open jobs, of their clients' names and of their workers' names."""
        running: set[str] = set()
        for job in loop.broker.state.store.jobs.values():
            if not job.is_final:
                size = job.request.size if job.request is not None else 0
                gate.meter.submit(job.principal, UNLIMITED, job.id, size)
                self._names.claim_peer(job.client, job.principal)
                running.update(part.peer for part in job.parts if part.peer)
        for peer, (_, principal) in loop.broker.state.store.joins.items():
            if peer in running:
                self._names.claim_peer(peer, principal)

    def start(self) -> None:
        """Start to follow the files, on the running event loop."""
        assert self._loop is not None
        self._watching = asyncio.create_task(self._watch(), name="dragoman security")
        self._loop.health.watch(self._watching)

    async def stop(self) -> None:
        """Stop, and write the name owners to disk."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        if self._saving is not None:
            await self._saving
        await self._save_names()

    async def _watch(self) -> None:
        while True:
            self.refresh()
            if self._names.is_dirty and (self._saving is None or self._saving.done()):
                # Beside this loop: a slow disk must not delay a revocation.
                self._saving = asyncio.create_task(self._save_names(), name="dragoman names")
            await asyncio.sleep(EVERY)

    # --- changes ------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Apply changes of the files, and expiries."""
        try:
            self.registry.refresh(self._now())
        except (RegistryError, OSError) as error:
            self._report_once(f"{error}; the last good registry stays in force")
        self._check_tokens()
        self._check_principals()
        self._check_certificate()
        try:
            if self._policy.refresh():
                self.gate.change_policy(self._policy.policy)
                self._note(f"policy changed: {self._policy.path.name}")
                self._recheck_workers()
        except BadPolicy as error:
            self._report_once(f"{error}; the last good policy stays in force")

    def _check_tokens(self) -> None:
        """End what was begun with tokens that have expired."""
        for key, token in self.tokens.remove_expired(self._now()):
            self.gate.keys_changed()
            self._disconnect_key(
                KeyChange(key, token.principal, KeyState.ALLOWED, KeyState.EXPIRED)
            )

    def _check_certificate(self) -> None:
        """Check a replaced certificate of the broker, and record it."""
        tls = self._certificate
        if tls is None or tls.stamp() == self._certificate_stamp:
            return
        self._certificate_stamp = tls.stamp()
        try:
            tls.context()
        except ValueError as error:
            self._report_once(f"{error}; the last good certificate stays in force")
        else:
            self._note(f"certificate changed: {tls.certificate.name}")

    def _check_principals(self) -> None:
        """Record changed roles and limits, and enrolment tokens that were made or used."""
        if self.registry.reads == self._reads:
            return
        before, tokens = self._principals, self._enrolments
        self._remember()
        self.gate.keys_changed()
        for name, entry in self._principals.items():
            was = before.get(name, PrincipalEntry())
            if entry != was:
                old, new = (", ".join(each.roles) or "none" for each in (was, entry))
                self._note(f"roles of {brief(name)}: {old} -> {new}", Principal(name))
        for id_, enrolment in self._enrolments.items():
            if id_ not in tokens:
                self._note(f"enrolment {id_} made for {', '.join(enrolment.names)}")
            elif enrolment.used_by and not tokens[id_].used_by:
                self._note(f"enrolment {id_} used by {brief(enrolment.used_by)}")
        self._recheck_workers()

    def _remember(self) -> None:
        self._reads = self.registry.reads
        self._principals = self.registry.principals()
        self._enrolments = self.registry.enrolments()

    def _keys_changed(self, changes: tuple[KeyChange, ...]) -> None:
        self.gate.keys_changed()
        for change in changes:
            detail = f"key {brief(change.key)}: {change.before} -> {change.after}"
            self._note(detail, change.principal)
            if change.before is KeyState.ALLOWED:
                self._disconnect_key(change)
            elif is_issued(change.key):
                # The registry revokes the principal: all of its tokens.
                for key in self.tokens.tokens_of(change.principal):
                    self._disconnect_key(replace(change, key=key))

    def _disconnect_key(self, change: KeyChange) -> None:
        """End the sessions, subscriptions and connections of a key."""
        loop = self._loop
        assert loop is not None
        peers = [peer for peer, key in self.gate.key_of_peer.items() if key == change.key]
        self._disconnect(peers, f"its key is {change.after}")
        loop.feed.forget(peers)
        if self._is_gone(change.principal):
            self._names.release([change.principal])
        log.info("disconnecting a key", key=brief(change.key), state=change.after.value)
        try:
            asyncio.get_running_loop().call_later(
                _NOTICE_DELAY, loop.links.disconnect_key, change.key
            )
        except RuntimeError:
            loop.links.disconnect_key(change.key)

    def _recheck_workers(self) -> None:
        """Disconnect workers that may no longer register."""
        assert self._loop is not None
        for worker in list(self._loop.broker.state.registry.workers.values()):
            if worker.is_builtin:
                continue
            roles = self.gate.roles_of(worker.principal, worker.peer)
            requests = [
                AccessRequest(Verb.REGISTER, s, names=(worker.name,)) for s in worker.services
            ]
            if not all(self.gate.policy.decide(roles, request).is_allowed for request in requests):
                self._disconnect([worker.peer], "it may no longer register")

    def _disconnect(self, peers: Sequence[PeerId], reason: str) -> None:
        assert self._loop is not None
        for peer in peers:
            self._loop.submit(DrainRequested(peer, at_once=True, reason=reason))

    def _is_gone(self, principal: Principal) -> bool:
        """Tell whether all keys of a principal are revoked."""
        entries = self.registry.entries()
        states = [entries[key].state for key in self.registry.keys_of(principal)]
        return bool(states) and all(state is KeyState.REVOKED for state in states)

    # --- records ------------------------------------------------------------------------------

    def report_token(self, is_accepted: bool, detail: str, principal: Principal | None) -> None:
        """Record a token of an issuer or a login; of refusals as many as of other refusals."""
        kind = Kind.ALLOWED if is_accepted else Kind.DENIED
        noted = Noted(kind, detail=detail[:500], principal=principal or ANONYMOUS)
        if is_accepted or self._refused_tokens.should_record(PeerId("http/token"), self._now()):
            self._submit(noted)

    def _note(self, detail: str, principal: Principal | None = None) -> None:
        noted = Noted(Kind.CHANGED, detail=detail)
        if principal is not None:
            noted = Noted(Kind.CHANGED, detail=detail, principal=principal)
        self._submit(noted)

    def _submit(self, noted: Noted) -> None:
        assert self._loop is not None
        self._loop.submit(noted)

    def _report_once(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            log.error("a security file cannot be used; the last good state stays", reason=trouble)
            self._note(trouble[:500])

    def _durable(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self.gate.meter.observe(entry.record)

    def _owner_of(self, job: JobId) -> JobOwner | None:
        """Return the owner of a job, from the ledger if the job has left the memory."""
        assert self._loop is not None
        found = self._loop.broker.state.store.find(job)
        if found is not None:
            return JobOwner(found.principal, found.service)
        for record in self._loop.ledger.history(job):
            if record.kind == Kind.SUBMITTED:
                return JobOwner(Principal(record.principal), ServiceName(record.service))
        return None

    async def _save_names(self) -> None:
        if self._names.is_dirty:
            self._names.is_dirty = False
            content = msgspec.json.encode(self._names.kept)
            try:
                await asyncio.to_thread(replace_file, self._names_file, content)
            except OSError as error:
                # Go on with a full disk, too: revocations must still take effect.
                self._names.is_dirty = True
                self._report_once(f"{self._names_file}: {error}; name owners are not saved yet")


def _view_request(what: str) -> AccessRequest:
    """Return what an HTTP view needs."""
    found = _VIEW_REQUESTS.get(what)
    task = _VIEW_TASKS.get(what, f"list_{what}")
    return found or AccessRequest(Verb.MANAGE, MANAGEMENT, task)


def task_in(codecs: BodyCodecs, body: Body) -> str:
    """Return the task in a request's body, if its side has not decoded it."""
    call = None if body.dialect in _TASK_IS_DECODED else call_in(codecs, body)
    return call.task if call is not None else ""


def call_in(codecs: BodyCodecs, body: Body) -> Call | None:
    """Decode a request; None if it is no call."""
    codec = codecs.get(body.dialect)
    try:
        return codec.read_call(body) if codec is not None else None
    except Unmappable:
        return None


def _read_names(path: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise ValueError(f"{path}: cannot read the owners of worker names: {error}") from None
