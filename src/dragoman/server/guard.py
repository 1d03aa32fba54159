"""Security of one broker: keys and policy from their files, in force while they change.

Looks at the files several times a second. Whoever loses the right to speak loses its workers'
sessions, its subscriptions and its connections at once; every change goes on record.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec
import structlog

from dragoman.core.events import DrainRequested, Noted
from dragoman.dialects.base import BodyCodecs
from dragoman.ledger.base import Entry
from dragoman.model.body import Body
from dragoman.model.content import Unmappable
from dragoman.model.names import JobId, PeerId, Principal, ServiceName, WorkerName
from dragoman.model.record import Kind
from dragoman.security.allowances import UNLIMITED
from dragoman.security.files import replace_file
from dragoman.security.gate import Gate, JobOwner
from dragoman.security.keys import KeyChange, KeyState, brief
from dragoman.security.names import NameOwners
from dragoman.security.policy_file import PolicyFile
from dragoman.security.policy_text import BadPolicy
from dragoman.security.register import Enrolment, PrincipalEntry
from dragoman.security.registry import KeyRegistry, RegistryError
from dragoman.security.verbs import AccessRequest, Verb
from dragoman.server.links import BUILTIN
from dragoman.server.loop import Loop
from dragoman.server.settings import SecuritySection
from dragoman.services.mmi import MANAGEMENT
from dragoman.services.sid import is_worker
from dragoman.transports.tls import ServerTls

log = structlog.get_logger("dragoman.security")

#: How often the files are looked at, in seconds.
EVERY: Final = 0.2
#: A peer that is cut off is told so first.
_FAREWELL: Final = 0.05
#: Dialects whose sides read the task out of the body themselves.
_READ_ALREADY: Final = frozenset({"nfp", "zss"})
#: The tasks of the management service by which the same is seen in every dialect.
_SEEN_BY: Final = {"jobs": "show_jobs", "why": "why", "metrics": "show_totals"}
#: In a name for many.
_GLOB: Final = re.compile(r"[*?\[]")
REGISTRY_FILE: Final = "registry.json"
POLICY_FILE: Final = "policy.toml"
NAMES_FILE: Final = "names.json"


class Guard:
    """Keys, policy and names of one broker; `attach` puts them in force."""

    def __init__(
        self,
        settings: SecuritySection,
        data: Path,
        now: Callable[[], float],
        certificate: ServerTls | None = None,
    ) -> None:
        self._now = now
        #: Listeners follow it by themselves; here it is put on record.
        self._certificate = certificate
        self._certificate_stamp = certificate.stamp() if certificate is not None else ()
        self.registry = KeyRegistry.open(settings.registry or data / REGISTRY_FILE)
        self._policy = PolicyFile(settings.policy or data / POLICY_FILE)
        self._names_file = data / NAMES_FILE
        self._names = NameOwners(self._is_gone)
        self._names.restore(_read_names(self._names_file))
        self._loop: Loop | None = None
        self._gate: Gate | None = None
        self._watching: asyncio.Task[None] | None = None
        self._reads = -1
        self._principals: dict[str, PrincipalEntry] = {}
        self._enrolments: dict[str, Enrolment] = {}
        self._trouble = ""

    # --- what listeners ask -------------------------------------------------------------------

    def admits(self, key: str) -> bool:
        """Tell whether whoever proved a key may come in; a stranger is noted for a person."""
        state = self.registry.state_of(key, self._now())
        if state is not KeyState.ALLOWED and self.registry.is_stale:
            # Somebody was let in a moment ago: their first knock must not be in vain.
            self.look()
            state = self.registry.state_of(key, self._now())
        if state is KeyState.UNKNOWN:
            self.registry.note_stranger(key, self._now(), "knocked")
        return state is KeyState.ALLOWED

    def check_token(self, secret: str) -> str | None:
        """Return the key of a bearer token that may speak now."""
        key = self.registry.check_token(secret, self._now())
        if key is None and self.registry.is_stale:
            self.look()
            key = self.registry.check_token(secret, self._now())
        return key

    def enrol(self, token: str, key: str, name: str) -> str:
        """Let a key in on the strength of a one-time token; return whom it speaks for."""
        principal = self.registry.enrol(token, key, self._now(), name)
        self.look()
        return principal

    def principal_of(self, key: str) -> str:
        """Name whom a key speaks for."""
        return self.registry.principal_of(key)

    def may_look(self, key: str, what: str) -> str:
        """Return why a key may not see something over HTTP; empty: it may."""
        ask = AccessRequest(Verb.MANAGE, MANAGEMENT, _SEEN_BY.get(what, f"list_{what}"))
        decision = self.gate.ask(key, ask, self._now())
        return "" if decision.is_allowed else decision.reason

    def nkeys(self) -> dict[str, tuple[str, ...]]:
        """Return the names that each nkey may have as a node, for those that may speak now."""
        now, found = self._now(), {}
        for key, entry in self.registry.entries().items():
            scheme, _, nkey = key.partition(":")
            if scheme == "nkey" and entry.principal and entry.state_at(now) is KeyState.ALLOWED:
                names = self.registry.entry_of(entry.principal).names
                plain = (name for name in names if not _GLOB.search(name))
                found[nkey] = tuple(dict.fromkeys([entry.principal, *plain]))
        return found

    def is_worker(self, client: str, name: str) -> bool:
        """Tell whether a client has proved to be the worker of a name, and may have its secrets."""
        return is_worker(client, name) and self.gate.is_worker(PeerId(client), WorkerName(name))

    @property
    def gate(self) -> Gate:
        """The gate that is in force."""
        assert self._gate is not None, "the guard is not attached"
        return self._gate

    # --- beginning and ending -----------------------------------------------------------------

    def attach(self, loop: Loop, codecs: BodyCodecs) -> None:
        """Let everything that comes in over the loop's links pass the gate."""
        self._loop = loop
        self._gate = gate = Gate(
            self.registry,
            self._policy.policy,
            owner_of=self._owner_of,
            names=self._names,
            task_in=lambda body: task_in(codecs, body),
        )
        self._recall(loop, gate)
        loop.links.guard(gate)
        loop.feed.sees = gate.sees
        loop.listeners.append(self._durable)
        self.registry.refresh(self._now())
        self._remember()
        self.registry.on_change(self._keys_changed)
        for link in loop.links.by_name.values():
            if link.name != BUILTIN and not hasattr(link.transport, "key_of"):
                log.warning("nobody can prove a key here: all are anonymous", link=link.name)
        log.info("security is on", keys=len(self.registry.entries()), policy=str(self._policy.path))

    def _recall(self, loop: Loop, gate: Gate) -> None:
        """Know again whose the open jobs are, and who ran them: names of theirs are taken."""
        running: set[str] = set()
        for job in loop.broker.state.store.jobs.values():
            if not job.is_final:
                size = job.request.size if job.request is not None else 0
                gate.meter.submit(job.principal, UNLIMITED, job.id, size)
                self._names.claim_peer(job.client, job.principal)
                running.update(part.peer for part in job.parts if part.peer)
        if not running:
            return
        joined = {
            record.peer: record.principal
            for record in loop.ledger.read(loop.ledger.first_seq - 1)
            if record.kind == Kind.JOINED and record.peer in running
        }
        for peer, principal in joined.items():
            self._names.claim_peer(PeerId(peer), Principal(principal))

    def start(self) -> None:
        """Begin to watch, on the running event loop."""
        self._watching = asyncio.create_task(self._watch(), name="dragoman security")

    async def stop(self) -> None:
        """Watch no more; names are on disk afterwards."""
        if self._watching is not None:
            self._watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watching
        await self._keep_names()

    async def _watch(self) -> None:
        while True:
            self.look()
            await self._keep_names()
            await asyncio.sleep(EVERY)

    # --- looking ------------------------------------------------------------------------------

    def look(self) -> None:
        """Put in force what has changed in the files, and what the clock has ended."""
        try:
            self.registry.refresh(self._now())
        except (RegistryError, OSError) as error:
            self._say_once(f"{error}; the last good registry stays in force")
        self._look_at_principals()
        self._look_at_certificate()
        try:
            if self._policy.refresh():
                self.gate.change_policy(self._policy.policy)
                self._note(f"policy read again: {self._policy.path.name}")
                self._judge_again()
        except BadPolicy as error:
            self._say_once(f"{error}; the last good policy stays in force")

    def _look_at_certificate(self) -> None:
        """See whether the broker's certificate was replaced, and is good."""
        tls = self._certificate
        if tls is None or tls.stamp() == self._certificate_stamp:
            return
        self._certificate_stamp = tls.stamp()
        try:
            tls.context()
        except ValueError as error:
            self._say_once(f"{error}; the last good certificate stays in force")
        else:
            self._note(f"certificate read again: {tls.certificate.name}")

    def _look_at_principals(self) -> None:
        """See whose roles and bounds were changed, and which enrolments were made or used."""
        if self.registry.reads == self._reads:
            return
        before, tokens = self._principals, self._enrolments
        self._remember()
        self.gate.keys_changed()
        for name, entry in self._principals.items():
            was = before.get(name, PrincipalEntry())
            if entry != was:
                said = ", ".join(was.roles) or "none", ", ".join(entry.roles) or "none"
                self._note(f"roles of {brief(name)}: {said[0]} -> {said[1]}", Principal(name))
        for id_, enrolment in self._enrolments.items():
            if id_ not in tokens:
                self._note(f"enrolment {id_} made for {', '.join(enrolment.names)}")
            elif enrolment.used_by and not tokens[id_].used_by:
                self._note(f"enrolment {id_} used by {brief(enrolment.used_by)}")
        self._judge_again()

    def _remember(self) -> None:
        self._reads = self.registry.reads
        self._principals = self.registry.principals()
        self._enrolments = self.registry.enrolments()

    def _keys_changed(self, changes: tuple[KeyChange, ...]) -> None:
        self.gate.keys_changed()
        for change in changes:
            words = f"key {brief(change.key)}: {change.before} -> {change.after}"
            self._note(words, change.principal)
            if change.before is KeyState.ALLOWED:
                self._cut_off(change)

    def _cut_off(self, change: KeyChange) -> None:
        """Let go of everything that speaks with a key."""
        loop = self._loop
        assert loop is not None
        peers = [peer for peer, key in self.gate.spoke.items() if key == change.key]
        self._let_go(peers, f"its key is {change.after}")
        loop.feed.forget(peers)
        if self._is_gone(change.principal):
            self._names.release([change.principal])
        log.info("key cut off", key=brief(change.key), state=change.after.value)
        try:
            asyncio.get_running_loop().call_later(_FAREWELL, loop.links.cut, change.key)
        except RuntimeError:
            loop.links.cut(change.key)

    def _judge_again(self) -> None:
        """Let go of workers that may not be workers any more."""
        assert self._loop is not None
        for worker in list(self._loop.broker.state.registry.workers.values()):
            if worker.is_builtin:
                continue
            roles = self.gate.roles_of(worker.principal)
            asks = [AccessRequest(Verb.REGISTER, s, names=(worker.name,)) for s in worker.services]
            if not all(self.gate.policy.decide(roles, ask).is_allowed for ask in asks):
                self._let_go([worker.peer], "it may not register any more")

    def _let_go(self, peers: Sequence[PeerId], reason: str) -> None:
        assert self._loop is not None
        for peer in peers:
            self._loop.submit(DrainRequested(peer, at_once=True, reason=reason))

    def _is_gone(self, principal: Principal) -> bool:
        """Tell whether nobody will ever speak for a principal again."""
        entries = self.registry.entries()
        states = [entries[key].state for key in self.registry.keys_of(principal)]
        return bool(states) and all(state is KeyState.REVOKED for state in states)

    # --- accounts -----------------------------------------------------------------------------

    def _note(self, words: str, principal: Principal | None = None) -> None:
        assert self._loop is not None
        noted = Noted(Kind.CHANGED, detail=words)
        if principal is not None:
            noted = Noted(Kind.CHANGED, detail=words, principal=principal)
        self._loop.submit(noted)

    def _say_once(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            log.error("security files are not used", reason=trouble)
            self._note(trouble[:500])

    def _durable(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self.gate.meter.saw(entry.record)

    def _owner_of(self, job: JobId) -> JobOwner | None:
        """Find out whose a job is; the ledger knows those that have left the memory."""
        assert self._loop is not None
        found = self._loop.broker.state.store.find(job)
        if found is not None:
            return JobOwner(found.principal, found.service)
        for record in self._loop.ledger.history(job):
            if record.kind == Kind.SUBMITTED:
                return JobOwner(Principal(record.principal), ServiceName(record.service))
        return None

    async def _keep_names(self) -> None:
        if self._names.is_dirty:
            self._names.is_dirty = False
            content = msgspec.json.encode(self._names.kept)
            try:
                await asyncio.to_thread(replace_file, self._names_file, content)
            except OSError as error:
                # The watch must go on, full disk or not: keys are still revoked meanwhile.
                self._names.is_dirty = True
                self._say_once(f"{self._names_file}: {error}; names are not kept yet")


def task_in(codecs: BodyCodecs, body: Body) -> str:
    """Read the task out of a request whose side did not."""
    codec = codecs.get(body.dialect)
    if codec is None or body.dialect in _READ_ALREADY:
        return ""
    try:
        return codec.read_call(body).task
    except Unmappable:
        return ""


def _read_names(path: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise ValueError(f"{path}: the names of workers cannot be read: {error}") from None
