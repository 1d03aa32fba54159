"""The gate: which events it allows, and how it refuses the others."""

from typing import Any, get_args

import pytest
from tests.security.keyring import NOW, gate, ring

from dragoman.core.events import (
    BeatReceived,
    CreditGranted,
    Event,
    EventDenied,
    InputReceived,
    JobCancelled,
    JobForwarded,
    JobSubmitted,
    Noted,
    PeerLeft,
    ReplyKind,
    ReplyReceived,
    ResultRequested,
    WorkerJoined,
)
from dragoman.model.body import Body
from dragoman.model.content import Call
from dragoman.model.fault import FaultCode
from dragoman.model.names import JobId, PeerId, Principal, ServiceName, WorkerName
from dragoman.model.record import Kind, Record
from dragoman.model.target import Named
from dragoman.security import gate as module
from dragoman.security.gate import Gate
from dragoman.security.keys import KeyState
from dragoman.security.policy_text import read_policy
from dragoman.security.registry_data import PrincipalEntry
from dragoman.security.verbs import AccessRequest, Verb

ME, YOU = PeerId("nfp/me"), PeerId("nfp/you")
BODY = Body("nfp", (b"{}",))


def submitted(
    service: str = "resize", job: str = "j1", peer: PeerId = ME, task: str = "run"
) -> JobSubmitted:
    return JobSubmitted(JobId(job), peer, ServiceName(service), BODY, task=task)


def joined(*services: str, name: str = "w1", peer: PeerId = ME, dialect: str = "nfp") -> Event:
    return WorkerJoined(peer, WorkerName(name), tuple(map(ServiceName, services)), dialect=dialect)


def check(at: Gate, key: str, event: Event, now: float = NOW) -> tuple[Event, ...]:
    return at.check(event, at.identity_of(key, now), now)


def reason(judged: tuple[Event, ...]) -> str:
    (refused,) = judged
    assert isinstance(refused, EventDenied), refused
    return refused.fault.message


def test_an_allowed_event_carries_its_principal() -> None:
    (event,) = check(gate(ring(alice="submitter")), "alice", submitted())
    assert isinstance(event, JobSubmitted)
    assert event.principal == "alice"


def test_a_request_that_no_rule_allows_is_refused_with_the_reason() -> None:
    (refused,) = check(gate(ring(vera="viewer")), "vera", submitted())
    assert isinstance(refused, EventDenied)
    assert refused.fault.code is FaultCode.DENIED
    assert refused.fault.message == "no rule of viewer allows: submit resize task run"
    assert refused.principal == "vera"
    assert isinstance(refused.event, JobSubmitted)
    assert refused.event.principal == "vera"


@pytest.mark.parametrize("state", [KeyState.PENDING, KeyState.REVOKED, KeyState.EXPIRED])
@pytest.mark.parametrize(
    "event",
    [
        submitted(),
        JobCancelled(JobId("j1"), ME),
        ResultRequested(JobId("j1"), ME),
        InputReceived(JobId("j1"), ME, BODY),
        joined("resize"),
        CreditGranted(ME),
        BeatReceived(ME),
        ReplyReceived(ME, JobId("j1"), ReplyKind.FINAL),
        JobForwarded(ME, JobId("j1"), ServiceName("b"), BODY),
        PeerLeft(ME, "bye"),
        Noted(Kind.PUBLISHED, ME, "topic", BODY),
    ],
)
def test_a_key_that_is_not_allowed_is_refused_for_every_event(
    state: KeyState, event: Event
) -> None:
    keys = ring(alice="admin")
    keys.keys["alice"].state = state
    assert "key" in reason(check(gate(keys), "alice", event))


def test_an_unknown_key_and_an_anonymous_peer_are_refused() -> None:
    assert "unknown" in reason(check(gate(ring()), "tls:00", submitted()))
    assert "no role" in reason(check(gate(ring()), "", submitted()))
    open_gate = gate(ring(), "[principals]\nanonymous = ['submitter']")
    assert isinstance(check(open_gate, "", submitted())[0], JobSubmitted)


def test_own_jobs_and_the_jobs_of_others_need_different_verbs() -> None:
    jobs = {"mine": ("alice", "resize"), "theirs": ("bob", "resize")}
    at = gate(ring(alice="submitter", olga="operator"), "", jobs)
    for ask in (ResultRequested, JobCancelled):
        allowed, event = check(at, "alice", ask(JobId("mine"), ME))
        assert isinstance(allowed, Noted)
        assert (allowed.kind, allowed.principal, allowed.job) == (Kind.ALLOWED, "alice", "mine")
        assert "role submitter, rule 1" in allowed.detail
        assert isinstance(event, ask)
        assert "others resize" in reason(check(at, "alice", ask(JobId("theirs"), ME)))
        assert len(check(at, "olga", ask(JobId("theirs"), YOU))) == 2
    unknown = check(at, "alice", ResultRequested(JobId("nowhere"), ME))
    assert isinstance(unknown[-1], ResultRequested)


def test_only_the_submitter_may_send_input_whatever_the_role() -> None:
    jobs = {"mine": ("olga", "resize"), "theirs": ("bob", "resize")}
    at = gate(ring(olga="admin"), "", jobs)
    assert isinstance(check(at, "olga", InputReceived(JobId("mine"), ME, BODY))[0], InputReceived)
    told = reason(check(at, "olga", InputReceived(JobId("theirs"), ME, BODY)))
    assert "only the submitter" in told


def test_a_worker_needs_the_right_to_each_of_its_services_and_to_its_name() -> None:
    policy = """
    [roles.lifter]
    verbs = ["register"]
    services = ["lift", "drop"]
    names = ["edge-*"]
    """
    at = gate(ring(w="lifter"), policy)
    (event,) = check(at, "w", joined("lift", "drop", name="edge-1"))
    assert isinstance(event, WorkerJoined)
    assert event.principal == "w"
    assert "register hoist" in reason(check(at, "w", joined("lift", "hoist", name="edge-1")))
    assert "as core-1" in reason(check(at, "w", joined("lift", name="core-1")))


def test_an_enrolled_principal_is_bound_to_its_services_and_names() -> None:
    keys = ring(w="worker")
    keys.principals["w"] = PrincipalEntry(("worker",), ("lift",), ("edge-*",))
    at = gate(keys)
    assert isinstance(check(at, "w", joined("lift", name="edge-1"))[0], WorkerJoined)
    assert "enrolled for lift" in reason(check(at, "w", joined("drop", name="edge-1")))
    assert "enrolled as edge-*" in reason(check(at, "w", joined("lift", name="core-1")))
    made_up = joined("lift", name="memo-00", dialect="memo01", peer=PeerId("memo/00"))
    assert isinstance(check(at, "w", made_up)[0], WorkerJoined)


def test_a_worker_reads_its_own_entry_of_the_inventory_only() -> None:
    asked: dict[str, Any] = {}
    keys = ring(w="worker", v="viewer", x="worker")
    keys.principals["w"] = PrincipalEntry(("worker",), ("lift",), ("edge-*",))
    at = Gate(
        keys,
        read_policy(""),
        owner_of=lambda job: None,
        call_in=lambda body: Call("get_inventory", asked.get("args", ()), asked.get("kwargs", {})),
    )

    def read(key: str, peer: str, *args: Any, **kwargs: Any) -> Event:
        asked.update(args=args, kwargs=kwargs)
        sid = submitted("SID.SERVICE.BROKER", task="get_inventory", peer=PeerId(peer))
        return check(at, key, sid)[0]

    assert isinstance(read("w", "nfp/edge-1", name="edge-1"), JobSubmitted)
    assert isinstance(read("w", "nfp/edge-1-NFPClient", "edge-1"), JobSubmitted)
    assert isinstance(read("v", "nfp/somebody", name="edge-1"), JobSubmitted)
    for key, peer, name in [
        ("w", "nfp/edge-1", "edge-2"),
        ("w", "nfp/core-1", "core-1"),
        ("x", "nfp/other", "edge-1"),
        ("x", "nfp/edge-1", "edge-1"),
        ("w", "nfp/edge-1", ["edge-1"]),
        ("w", "nfp/edge-1", None),
    ]:
        assert isinstance(read(key, peer, name=name), EventDenied), (key, peer, name)


def test_a_name_is_not_taken_over() -> None:
    at = gate(ring(alice="admin", mallory="admin"))
    assert not isinstance(at.identify("alice", ME, NOW), Noted)
    thief = at.identify("mallory", ME, NOW)
    assert isinstance(thief, Noted)
    assert (thief.kind, thief.principal) == (Kind.DENIED, "mallory")
    assert "take-over refused" in thief.detail
    assert isinstance(at.identify("stranger", ME, NOW), Noted)
    assert not isinstance(at.identify("stranger", YOU, NOW), Noted)
    assert at.names.owner_of(YOU) is None, "a stranger gets no name"
    for event in (submitted(), BeatReceived(ME), PeerLeft(ME, "bye"), joined("a")):
        (refused,) = check(at, "mallory", event)
        assert isinstance(refused, EventDenied)
        assert not refused.dismisses, "the owner keeps its session"


def test_events_of_a_worker_that_has_not_joined_are_refused() -> None:
    at = gate(ring(mal="worker"))
    at.identify("mal", YOU, NOW)
    late = ReplyReceived(PeerId("memo/00"), JobId("j1"), ReplyKind.FINAL)
    assert "belongs to another principal" in reason(check(at, "mal", late))
    assert at.names.owner_of(PeerId("memo/00")) is None


def test_a_workers_name_is_not_taken_over_from_another_address_or_dialect() -> None:
    at = gate(ring(alice="worker", mallory="worker"))
    check(at, "alice", joined("lift", name="edge-1"))
    (refused,) = check(at, "mallory", joined("lift", name="edge-1", peer=PeerId("dcp/x")))
    assert isinstance(refused, EventDenied)
    assert "the worker name edge-1 belongs to alice" in refused.fault.message
    assert refused.dismisses, "it is the thief's own session that ends"


def test_two_keys_of_one_principal_share_its_names() -> None:
    keys = ring(alice="admin")
    keys.keys["alice-2"] = keys.keys["alice"]
    at = gate(keys)
    at.identify("alice", ME, NOW)
    assert not isinstance(at.identify("alice-2", ME, NOW), Noted)


def test_a_worker_that_forwards_a_job_needs_the_right_to_submit() -> None:
    at = gate(ring(w="worker", both="admin"))
    passed = JobForwarded(ME, JobId("j1"), ServiceName("b"), BODY)
    hidden = Gate(
        ring(a="submitter"),
        read_policy(""),
        owner_of=lambda job: None,
        task_in=lambda b: "shutdown",
    )
    assert "manage b task shutdown" in reason(check(hidden, "a", passed))
    assert "submit b" in reason(check(at, "w", passed))
    at.identify("both", ME, NOW)
    assert check(at, "both", passed) == (passed,)


def test_a_task_in_the_body_counts_as_much_as_the_one_beside_it() -> None:
    policy = """
    [roles.runner]
    verbs = ["submit"]
    tasks = ["run"]
    """
    at = Gate(
        ring(a="runner"), read_policy(policy), owner_of=lambda job: None, task_in=lambda b: "erase"
    )
    assert "task erase" in reason(check(at, "a", submitted(task="run")))


def test_named_targets_are_part_of_the_access_request() -> None:
    policy = """
    [roles.near]
    verbs = ["submit"]
    names = ["edge-*"]
    """
    at = gate(ring(a="near"), policy)
    near = JobSubmitted(JobId("1"), ME, ServiceName("s"), BODY, Named((WorkerName("edge-1"),)))
    far = JobSubmitted(JobId("2"), ME, ServiceName("s"), BODY, Named((WorkerName("core"),)))
    assert isinstance(check(at, "a", near)[0], JobSubmitted)
    assert "as core" in reason(check(at, "a", far))


def test_limits_refuse_excess_and_say_to_retry_later() -> None:
    policy = """
    [limits.alice]
    requests_per_second = 2
    open_jobs = 1
    results_per_second = 1
    connections = 1
    """
    at = gate(ring(alice="admin"), policy)
    assert isinstance(check(at, "alice", submitted(job="1"))[0], JobSubmitted)
    (refused,) = check(at, "alice", submitted(job="2"))
    assert isinstance(refused, EventDenied)
    assert refused.fault.code is FaultCode.QUEUE_FULL
    assert "1 jobs of alice" in refused.fault.message
    assert "2 requests" in reason(check(at, "alice", JobCancelled(JobId("1"), ME)))
    asked = ResultRequested(JobId("1"), ME)
    assert len(check(at, "alice", asked, NOW + 5)) == 2
    assert "1 results" in reason(check(at, "alice", asked, NOW + 5))
    at.meter.observe(Record(1, NOW, Kind.ENDED, "1"))
    assert isinstance(check(at, "alice", submitted(job="2"), NOW + 9)[0], JobSubmitted)
    heard = at.identify("alice", ME, NOW)
    assert not isinstance(heard, Noted)
    assert heard.fault is None
    second = at.identify("alice", YOU, NOW)
    assert not isinstance(second, Noted)
    assert second.fault is not None
    check(at, "alice", PeerLeft(ME, "bye"))
    third = at.identify("alice", YOU, NOW)
    assert not isinstance(third, Noted)
    assert third.fault is None


def test_a_subscriber_sees_its_services_and_records_without_a_service_only_with_all() -> None:
    policy = """
    [roles.watcher]
    verbs = ["events"]
    services = ["lift"]
    """
    at = gate(ring(w="watcher", a="auditor", v="viewer"), policy)
    for key, peer in (("w", ME), ("a", YOU), ("v", PeerId("nfp/v"))):
        at.identify(key, peer, NOW)
    lift, other = Record(1, NOW, "ended", service="lift"), Record(2, NOW, "ended", service="x")
    key_change = Record(3, NOW, "changed")
    assert [at.may_see(ME, r) for r in (lift, other, key_change)] == [True, False, False]
    assert [at.may_see(YOU, r) for r in (lift, other, key_change)] == [True, True, True]
    assert not at.may_see(PeerId("nfp/v"), lift)
    assert not at.may_see(PeerId("nfp/unknown"), lift)
    assert at.may_subscribe(ME, at.identity_of("w", NOW)).kind == Kind.ALLOWED
    assert at.may_subscribe(ME, at.identity_of("v", NOW)).kind == Kind.DENIED


def test_publishing_needs_the_right_to_be_a_worker_and_other_notes_do_not() -> None:
    at = gate(ring(w="worker", s="submitter"))
    published = Noted(Kind.PUBLISHED, ME, "topic", BODY)
    assert check(at, "w", published)[0] == published
    rejected = Noted(Kind.REJECTED, YOU, "bad frame")
    (event,) = check(at, "s", rejected)
    assert isinstance(event, Noted)
    assert event.principal == "s"
    again = Noted(Kind.PUBLISHED, YOU, "topic", BODY)
    assert "register" in reason(check(at, "s", again))


def test_the_secrets_of_a_worker_are_for_the_owner_of_its_name() -> None:
    at = gate(ring(will="worker", mal="worker", vera="viewer"))
    name = WorkerName("edge-1")
    check(at, "will", joined("lift", name="edge-1", peer=PeerId("nfp/edge-1")))
    at.identify("mal", PeerId("dcp/edge-1"), NOW)
    at.identify("vera", PeerId("nfp/new"), NOW)
    assert at.is_worker(PeerId("nfp/edge-1"), name)
    assert not at.is_worker(PeerId("dcp/edge-1"), name), "the same name in another dialect"
    assert not at.is_worker(PeerId("nfp/new"), WorkerName("new")), "not a worker at all"
    assert not at.is_worker(PeerId("nfp/unheard"), WorkerName("unheard"))
    at.identify("mal", PeerId("nfp/other"), NOW)
    assert at.is_worker(PeerId("nfp/other"), WorkerName("other")), "before it has registered"


def test_a_new_policy_and_changed_keys_take_effect_at_once() -> None:
    keys = ring(alice="submitter")
    at = gate(keys)
    assert isinstance(check(at, "alice", submitted())[0], JobSubmitted)
    keys.keys["alice"].state = KeyState.REVOKED
    at.keys_changed()
    assert "revoked" in reason(check(at, "alice", submitted()))
    keys.keys["alice"].state = KeyState.ALLOWED
    keys.principals["alice"] = PrincipalEntry()
    at.change_policy(read_policy("[principals]\nalice = ['viewer']"))
    assert "viewer" in reason(check(at, "alice", submitted()))
    assert at.policy.roles_of(Principal("alice")) == ("viewer",)


def test_requests_that_are_no_events_are_decided_too() -> None:
    at = gate(ring(v="viewer"))
    look = AccessRequest(Verb.MANAGE, "mmi.service.broker", "list_workers")
    assert at.decide("v", look, NOW).is_allowed
    assert not at.decide("v", AccessRequest(Verb.EVENTS), NOW).is_allowed
    assert not at.decide("stranger", look, NOW).is_allowed


def test_there_is_a_check_for_every_event_that_a_peer_can_cause() -> None:
    assert set(module._CHECKS) == set(get_args(EventDenied.__annotations__["event"]))


def test_a_flood_of_peers_without_a_key_is_bounded_by_the_limits_of_everybody() -> None:
    policy = (
        "[principals]\nanonymous = ['submitter']\n[limits.'*']\nopen_jobs = 3\nconnections = 2\n"
    )
    at = gate(ring(), policy)
    found = [check(at, "", submitted(job=str(n)))[0] for n in range(10)]
    assert sum(isinstance(event, JobSubmitted) for event in found) == 3
    peers = [at.identify("", PeerId(f"nfp/{n}"), NOW) for n in range(10)]
    assert sum(not isinstance(p, Noted) and p.fault is None for p in peers) == 2
