"""Roles x verbs x dialects: what happens on the wire is what the table says, case by case.

Each case is a real message through the real side of its dialect, judged by the real gate and
carried out by the real core. The table is written here a second time, without any of the code
that decides.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count, product
from random import Random
from typing import Any

import pytest
from tests.security.gated_broker import GatedBroker
from tests.security.keyring import ring

from dragoman.core.events import (
    InputReceived,
    JobCancelled,
    JobSubmitted,
    ResultRequested,
    WorkerJoined,
)
from dragoman.dialects.base import Subscribed
from dragoman.dialects.peer_sides import ClientSide, Submission, Unsupported
from dragoman.dialects.registry import body_codecs
from dragoman.model.content import Call
from dragoman.model.names import JobId, PeerId, Principal, ServiceName, WorkerName
from dragoman.model.target import parse_target
from dragoman.security.roles import SHIPPED
from dragoman.security.verbs import TargetClass, Verb
from dragoman.testing.sim_dialects import SIM_DIALECTS

MMI, SID, FSS = (f"{name}.service.broker" for name in ("mmi", "sid", "fss"))
TARGETS = {
    "any": "any",
    "all": "all",
    "names": "w1,w2",
    "labels": "labels:a=b",
    "resources": "resource:r1",
}
DIALECTS = (*SIM_DIALECTS, "http")
BODY = body_codecs()["nfp"].write_call(Call("run"))


@dataclass(frozen=True)
class Case:
    """One request."""

    verb: str
    service: str
    task: str = "run"
    target: str = "any"


CASES = [
    *(
        Case("submit", service, task, target)
        for service, task, target in product(("lift", "drop"), ("run", "erase"), TARGETS)
    ),
    *(Case("manage", MMI, task) for task in ("show_workers", "restart")),
    *(Case("inventory", SID, task) for task in ("get_inventory", "set")),
    *(Case("files", FSS, task) for task in ("fetch_file", "put_file")),
    *(
        Case(verb, service)
        for verb in ("read-own", "read-others", "cancel", "cancel-others", "register", "input")
        for service in ("lift", "drop")
    ),
    Case("events", ""),
]

# --- the table ------------------------------------------------------------------------------

#: What each shipped role may do: verbs, and the tasks of built-in services.
TABLE: dict[str, tuple[set[str], set[str]]] = {
    "viewer": (set(), {"show_workers", "get_inventory"}),
    "submitter": ({"submit", "read-own", "cancel", "input"}, {"fetch_file"}),
    "operator": (
        {"submit", "read-own", "read-others", "cancel", "cancel-others", "events", "input"},
        {"show_workers", "restart", "get_inventory", "set", "fetch_file", "put_file"},
    ),
    "worker": ({"register"}, {"fetch_file"}),
    "auditor": (
        {"read-own", "read-others", "events"},
        {"show_workers", "get_inventory"},
    ),
    "admin": (
        {verb.value for verb in Verb} | {"input"},
        {"show_workers", "restart", "get_inventory", "set", "fetch_file", "put_file"},
    ),
}


def promised(role: str, case: Case) -> bool:
    verbs, tasks = TABLE[role]
    return case.task in tasks if case.service in (MMI, SID, FSS) else case.verb in verbs


@dataclass(frozen=True)
class Drawn:
    """A role that was drawn by lot: one rule, with plain names and no globs."""

    verbs: tuple[str, ...]
    services: tuple[str, ...]
    tasks: tuple[str, ...]
    targets: tuple[str, ...]

    def toml(self, name: str) -> str:
        lists = {
            "verbs": self.verbs,
            "services": self.services,
            "tasks": self.tasks,
            "targets": self.targets,
        }
        lines = [f"{key} = {list(words)}" for key, words in lists.items()]
        return "\n".join([f"[roles.{name}]", *lines, ""])

    def allows(self, case: Case) -> bool:
        if case.verb == "events":
            return "events" in self.verbs and "*" in self.tasks
        verb = "submit" if case.verb == "input" else case.verb
        # Questions about a job, and registrations, name no task.
        has_task = case.verb in ("submit", "manage", "inventory", "files")
        return (
            verb in self.verbs
            and case.service in self.services
            and (case.task in self.tasks if has_task and "*" not in self.tasks else True)
            and (has_task or "*" in self.tasks)
            and (case.verb != "submit" or case.target in self.targets)
            and (case.verb != "input" or "any" in self.targets)
        )


def drawn(number: int) -> Drawn:
    lot = Random(number)

    def some(words: Iterable[str], least: int = 1) -> tuple[str, ...]:
        known = list(words)
        return tuple(lot.sample(known, lot.randint(least, len(known))))

    tasks = ("*",) if lot.random() < 0.6 else some(("run", "erase", "restart", "set", "put_file"))
    return Drawn(
        some(verb.value for verb in Verb),
        some(("lift", "drop", MMI, SID, FSS)),
        tasks,
        some(each.value for each in TargetClass),
    )


# --- the wire -------------------------------------------------------------------------------

Say = Callable[[GatedBroker, str, Case], bool]


class Talk:
    """Says every case in one dialect; each time as a new peer."""

    def __init__(self, dialect: str, broker: GatedBroker) -> None:
        self.dialect, self.broker = dialect, broker
        self._numbers = count(1)

    def is_allowed(self, case: Case) -> bool | None:
        """Say it; return what became of it, None if the dialect has no words for it."""
        self.broker.records.clear()
        self.broker.subscribed.clear()
        try:
            for address, frames, link in self._messages(case):
                self.broker.say(link, address, frames, "me")
        except Unsupported:
            return None
        # ZSS does not wait for a worker: a refusal without workers is the core's, not the gate's.
        kinds = {
            "no worker" if r.fault == "no_worker" else str(r.kind) for r in self.broker.records
        }
        judged = ("refused", "denied", "submitted", "allowed", "joined")
        assert {r.principal for r in self.broker.records if r.kind in judged} <= {"me"}
        is_refused = bool(kinds & {"refused", "denied"})
        if case.verb == "events":
            assert is_refused is not bool(self.broker.subscribed)
        elif case.verb != "input":
            positive = {"submitted", "allowed", "joined", "resynced", "no worker"}
            assert is_refused is not bool(kinds & positive), kinds
        return not is_refused

    def _messages(self, case: Case) -> Iterator[tuple[bytes, list[bytes], str]]:
        number = next(self._numbers)
        job = f"00000000-0000-4000-8000-{number:012}"
        if case.verb in ("read-own", "read-others", "cancel", "cancel-others", "input"):
            self._begin(job, case)
        if self.dialect == "http":
            name = f"peer-{number}"
            yield name.encode(), self._http(case, job, PeerId(f"http/{name}")), "http"
            return
        dialect = SIM_DIALECTS[self.dialect]
        if case.verb == "register":
            yield from self._join(case, number)
            return
        if not dialect.has_clients:
            raise Unsupported(self.dialect)
        for frames in self._result_requested(dialect.client(lambda: job), case, job):
            if self.dialect == "memo":
                address = f"{number:08}".encode() + b"\x80\0\0\1"
                yield address, [bytes(frames[1])], "memo"
            else:
                yield f"peer-{number}".encode(), [bytes(f) for f in frames], dialect.client_link

    def _begin(self, job: str, case: Case) -> None:
        """Submit a job of the caller, or of another principal."""
        principal = Principal("other" if case.verb.endswith("others") else "me")
        event = JobSubmitted(
            JobId(job),
            PeerId("nfp/somebody"),
            ServiceName(case.service),
            BODY,
            principal=principal,
        )
        self.broker.broker.handle(event, self.broker.now)

    def _result_requested(self, side: ClientSide, case: Case, job: str) -> list[list[bytes]]:
        found: Iterable[object]
        if case.verb.startswith("read"):
            found = side.ask(JobId(job))
        elif case.verb.startswith("cancel"):
            found = side.cancel(JobId(job))
        elif case.verb == "input":
            found = side.give_input(JobId(job), "q1", "answer", "")
        elif case.verb == "events":
            found = side.subscribe(("*",), 0)
        else:
            if self.dialect == "memo" and case.target != "any":
                raise Unsupported("memo01 has no targets")
            target = parse_target(TARGETS[case.target])
            found = side.submit(Submission(JobId(job), case.service, Call(case.task), target))
        return list(found)  # type: ignore[arg-type]

    def _join(self, case: Case, number: int) -> Iterator[tuple[bytes, list[bytes], str]]:
        dialect, name = SIM_DIALECTS[self.dialect], f"w{number}"
        side = dialect.worker(name, case.service, lambda: f"id-{number}", lambda: self.broker.now)
        for frames in side.join():
            said = [bytes(f) for f in frames]
            if self.dialect == "memo":
                yield f"{number:08}".encode() + b"\x80\0\0\1", [said[1]], "memo"
                return
            if self.dialect == "ncl":
                yield said[0], said[1:], "ncl"
            else:
                yield name.encode(), said, dialect.worker_link

    def _http(self, case: Case, job_id: str, peer: PeerId) -> Any:
        """Return what the web application hands over: objects, where others have frames."""
        job, service = JobId(job_id), ServiceName(case.service)
        if case.verb.startswith("read"):
            return [ResultRequested(job, peer)]
        if case.verb.startswith("cancel"):
            return [JobCancelled(job, peer)]
        if case.verb == "input":
            return [InputReceived(job, peer, BODY)]
        if case.verb == "events":
            return [Subscribed(peer, ("*",), 0, "s")]
        if case.verb == "register":
            return [WorkerJoined(peer, WorkerName(f"worker-{job}"), (service,), dialect="http")]
        target = parse_target(TARGETS[case.target])
        return [JobSubmitted(job, peer, service, BODY, target, task=case.task)]


def said_cases(dialect: str, role: str, policy: str = "") -> Iterator[tuple[Case, bool]]:
    talk = Talk(dialect, GatedBroker(ring(me=role, other="submitter"), policy))
    for case in CASES:
        outcome = talk.is_allowed(case)
        if outcome is not None:
            yield case, outcome


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("role", SHIPPED)
def test_a_shipped_role_may_do_on_the_wire_what_the_table_says(dialect: str, role: str) -> None:
    wrong = {c: got for c, got in said_cases(dialect, role) if got is not promised(role, c)}
    assert wrong == {}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_random_role_may_do_on_the_wire_what_its_rule_says(dialect: str) -> None:
    for number in range(12):
        rule = drawn(number)
        policy = rule.toml("lot")
        wrong = {
            c: got for c, got in said_cases(dialect, "lot", policy) if got is not rule.allows(c)
        }
        assert wrong == {}, rule


def test_the_matrix_has_thousands_of_cases_and_every_verb_is_allowed_and_denied() -> None:
    per_role = {d: [c for c, _ in said_cases(d, "admin")] for d in DIALECTS}
    roles = len(SHIPPED) + 12
    assert sum(map(len, per_role.values())) * roles > 2500
    verdicts = {
        (case.verb, got)
        for dialect in ("nfp", "http")
        for role in SHIPPED
        for case, got in said_cases(dialect, role)
    }
    assert verdicts == {(c.verb, got) for c in CASES for got in (True, False)}
    assert set(TABLE) == set(SHIPPED)
