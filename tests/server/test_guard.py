"""The guard: changes of its files take effect on connected peers."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.server.memory_server import settle
from tests.transports.tls_files import AUTHORITY, write_tls

from dragoman.core.broker import Broker
from dragoman.core.events import JobSubmitted
from dragoman.dialects.nfp.broker_side import NfpBrokerSide
from dragoman.dialects.nfp.client_side import NfpClientSide
from dragoman.dialects.nfp.worker_side import NfpWorkerSide
from dragoman.dialects.peer_sides import Submission
from dragoman.dialects.registry import body_codecs
from dragoman.ledger.memory import MemoryLedger
from dragoman.model.body import Body
from dragoman.model.content import Call
from dragoman.model.names import JobId, PeerId, Principal, ServiceName
from dragoman.model.record import Record
from dragoman.sdk.issuing import new_certificate
from dragoman.security.keys import KeyState
from dragoman.security.registry import EnrolmentRefused, KeyRegistry
from dragoman.server.clock import Clock
from dragoman.server.guard import Guard, task_in
from dragoman.server.links import Link, Links
from dragoman.server.loop import Loop
from dragoman.server.rejections import PER_WINDOW
from dragoman.server.settings import SecuritySection
from dragoman.transports.memory import MemoryHub
from dragoman.transports.tls import ServerTls

WILL, SUE, ANN = (f"tls:{letter * 64}" for letter in "abc")
JOB = "00000000-0000-4000-8000-000000000001"


class ProvingHub(MemoryHub):
    """A memory hub whose peers have keys."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: dict[bytes, str] = {}
        self.was_cut: list[str] = []

    def key_of(self, address: bytes) -> str:
        return self.keys.get(address, "")

    def cut(self, key: str) -> None:
        self.was_cut.append(key)


class SecuredServer:
    """A broker with security on, in memory, beside real files."""

    def __init__(self, data: Path, certificate: ServerTls | None = None, **said: Any) -> None:
        self.now = 1000.0
        self.data = data
        self.hub = ProvingHub()
        self.ledger = MemoryLedger()
        self.broker = Broker()
        self.links = Links([Link(NfpBrokerSide(codecs=body_codecs()), self.hub)])
        self.loop = Loop(self.broker, self.ledger, self.links, Clock())
        #: As the command line does: through the file, in another object.
        self.registry = KeyRegistry.open(data / "registry.json")
        self.registry.add(WILL, "will", now=0.0, roles=("worker",))
        self.registry.add(SUE, "sue", now=0.0, roles=("submitter",))
        self.registry.add(ANN, "ann", now=0.0, roles=("auditor",))
        section = SecuritySection(enabled=True, **said)
        self.guard = Guard(section, data, lambda: self.now, certificate)

    def records(self, kind: str) -> list[Record]:
        return [r for r in self.ledger.read() if r.kind == kind]

    def say(self, name: str, key: str, messages: Any) -> None:
        address = name.encode()
        self.hub.keys[address] = key
        if address not in self.hub._peers:
            self.hub.connect(address)
        for frames in messages:
            self.hub._peers[address].say(frames)

    def inbox(self, name: str) -> bytes:
        return b" ".join(b" ".join(m) for m in self.hub._peers[name.encode()].inbox)

    def run(self, scenario: Callable[["SecuredServer"], Awaitable[None]]) -> None:
        async def both() -> None:
            self.guard.attach(self.loop, body_codecs())
            await self.links.open()
            serving = asyncio.create_task(self.loop.run())
            try:
                async with asyncio.timeout(10):
                    await scenario(self)
            finally:
                self.loop.stop()
                await serving
                await self.guard.stop()

        asyncio.run(both())


@pytest.fixture
def server(tmp_path: Path) -> SecuredServer:
    return SecuredServer(tmp_path)


def worker(name: str = "w1") -> Any:
    return NfpWorkerSide(name, "lift").join()


def submission(job: str = JOB) -> Any:
    side = NfpClientSide(lambda: job)
    return [*side.hello(), *side.submit(Submission(JobId(job), "lift", Call("run")))]


async def with_a_worker(server: SecuredServer) -> None:
    server.say("w1", WILL, worker())
    await settle(lambda: server.broker.state.registry.workers)


def test_a_revoked_worker_is_gone_at_the_next_refresh_and_its_job_is_requeued(
    server: SecuredServer,
) -> None:
    async def scenario(server: SecuredServer) -> None:
        await with_a_worker(server)
        server.say("c1", SUE, submission())
        await settle(lambda: server.records("dispatched"))
        server.registry.revoke("will")
        server.guard.refresh()
        await settle(lambda: server.records("requeued"))
        await settle(lambda: server.hub.was_cut)

    server.run(scenario)
    assert server.hub.was_cut == [WILL]
    assert not server.broker.state.registry.workers
    (left,) = server.records("left")
    assert left.detail == "its key is revoked"
    (changed,) = server.records("changed")
    assert changed.detail.startswith("key tls:aaaaaaaaaaaa...: allowed -> revoked")
    assert changed.principal == "will"


def test_a_key_that_expires_is_disconnected_by_the_clock_alone(server: SecuredServer) -> None:
    async def scenario(server: SecuredServer) -> None:
        await with_a_worker(server)
        server.registry.expire(WILL, 1001.0)
        server.guard.refresh()
        assert server.broker.state.registry.workers
        server.now = 1001.0
        server.guard.refresh()
        await settle(lambda: not server.broker.state.registry.workers)
        await settle(lambda: server.hub.was_cut)

    server.run(scenario)
    assert "allowed -> expired" in server.records("changed")[-1].detail


def test_a_new_key_is_allowed_without_a_restart(server: SecuredServer) -> None:
    new = "tls:" + "d" * 64

    async def scenario(server: SecuredServer) -> None:
        assert not server.guard.admits(new)
        server.guard.refresh()
        assert server.registry.state_of(new, 0.0) is KeyState.UNKNOWN
        assert KeyRegistry.open(server.registry.path).state_of(new, 0.0) is KeyState.PENDING
        assert not server.guard.admits(new)
        server.registry.approve(new, "dora", ("worker",))
        server.guard.refresh()
        assert server.guard.admits(new)
        server.say("w2", new, worker("w2"))
        await settle(lambda: server.broker.state.registry.workers)

    server.run(scenario)
    assert server.records("joined")[0].principal == "dora"
    assert any("roles of dora: none -> worker" in r.detail for r in server.records("changed"))


def test_roles_that_are_taken_away_end_what_they_allowed(server: SecuredServer) -> None:
    async def scenario(server: SecuredServer) -> None:
        await with_a_worker(server)
        server.registry.set_roles("will", ("viewer",))
        server.guard.refresh()
        await settle(lambda: not server.broker.state.registry.workers)

    server.run(scenario)
    assert server.records("left")[0].detail == "it may no longer register"
    assert server.hub.was_cut == [], "the key may still speak"


def write_policy(server: SecuredServer, text: str) -> None:
    draft = server.data / "draft"
    draft.write_text(text)
    os.replace(draft, server.data / "policy.toml")


def test_a_policy_is_read_again_and_a_broken_one_is_not_used(server: SecuredServer) -> None:
    async def scenario(server: SecuredServer) -> None:
        write_policy(server, "[principals]\nann = ['submitter']\n")
        server.guard.refresh()
        assert "submitter" in server.guard.gate.roles_of(Principal("ann"))
        write_policy(server, "[principals]\nann = ['boss']\n")
        server.guard.refresh()
        server.guard.refresh()
        assert "submitter" in server.guard.gate.roles_of(Principal("ann"))
        await settle(lambda: len(server.records("changed")) == 2)

    server.run(scenario)
    first, second = server.records("changed")
    assert first.detail == "policy changed: policy.toml"
    assert "principals.ann" in second.detail
    assert "the last good policy stays in force" in second.detail


def test_a_broken_registry_is_reported_once_and_the_last_good_one_stays(
    server: SecuredServer,
) -> None:
    async def scenario(server: SecuredServer) -> None:
        server.registry.path.write_text("{")
        server.guard.refresh()
        server.guard.refresh()
        assert server.guard.admits(WILL)
        await settle(lambda: server.records("changed"))

    server.run(scenario)
    assert len(server.records("changed")) == 1


def test_names_of_workers_outlive_the_broker(server: SecuredServer) -> None:
    server.run(with_a_worker)
    guard = Guard(SecuritySection(enabled=True), server.data, lambda: 1000.0)
    thief = guard._names.claim_peer(PeerId("nfp/w1"), Principal("mallory"))
    assert thief == "will"
    (server.data / "names.json").write_text("{")
    with pytest.raises(ValueError, match=r"names\.json"):
        Guard(SecuritySection(enabled=True), server.data, lambda: 1000.0)


def test_the_names_of_a_revoked_principal_are_free(server: SecuredServer) -> None:
    async def scenario(server: SecuredServer) -> None:
        await with_a_worker(server)
        server.registry.revoke("will")
        server.guard.refresh()
        server.say("w1", ANN, worker())
        server.registry.set_roles("ann", ("worker",))
        server.guard.refresh()
        server.say("w1", ANN, worker())
        await settle(lambda: len(server.records("joined")) == 2)

    server.run(scenario)
    assert server.records("joined")[1].principal == "ann"


def test_a_job_that_has_left_the_memory_still_has_its_owner(server: SecuredServer) -> None:
    async def scenario(server: SecuredServer) -> None:
        server.say("c1", SUE, submission())
        await settle(lambda: server.records("submitted"))
        owner = server.guard._owner_of(JobId(JOB))
        del server.broker.state.store.jobs[JobId(JOB)]
        assert server.guard._owner_of(JobId(JOB)) == owner
        assert owner is not None
        assert (owner.principal, owner.service) == ("sue", "lift")
        assert server.guard._owner_of(JobId("unknown")) is None

    server.run(scenario)


def test_open_jobs_count_after_a_restart_and_their_clients_names_have_owners(
    server: SecuredServer,
) -> None:
    write_policy(server, "[limits.sue]\nopen_jobs = 1\n")
    server.guard = Guard(SecuritySection(enabled=True), server.data, lambda: server.now)
    event = JobSubmitted(
        JobId("old"),
        PeerId("nfp/c1"),
        ServiceName("lift"),
        Body("nfp", (b"{}",)),
        principal=Principal("sue"),
    )
    server.broker.handle(event, server.now)

    async def scenario(server: SecuredServer) -> None:
        assert server.guard.gate.meter.open_jobs(Principal("sue")) == 1
        server.say("c1", SUE, submission())
        server.say("c2", ANN, submission())
        await settle(lambda: b"are open, its limit" in server.inbox("c1"))

    server.broker.state.store.last_seq = 0
    server.run(scenario)
    assert server.guard.gate.names.owner_of(PeerId("nfp/c1")) == "sue"


def test_a_key_that_was_just_allowed_may_connect_before_the_next_refresh(
    server: SecuredServer,
) -> None:
    new = "tls:" + "d" * 64

    async def scenario(server: SecuredServer) -> None:
        assert not server.guard.admits(new)
        server.registry.add(new, "dora", now=0.0)
        assert server.guard.admits(new)

    server.run(scenario)


def test_a_key_that_was_just_revoked_may_not_connect_before_the_next_refresh(
    server: SecuredServer,
) -> None:
    async def scenario(server: SecuredServer) -> None:
        assert server.guard.admits(WILL)
        server.registry.revoke("will")
        assert not server.guard.admits(WILL)

    server.run(scenario)


def test_a_bearer_token_is_looked_up(server: SecuredServer) -> None:
    secret = server.registry.new_token("tom", now=0.0)

    async def scenario(server: SecuredServer) -> None:
        key = server.guard.check_token(secret)
        assert key is not None
        assert server.guard.registry.principal_of(key) == "tom"
        assert server.guard.check_token("nonsense") is None

    server.run(scenario)


def test_an_enrolment_is_on_record_from_its_making_to_its_use(server: SecuredServer) -> None:
    async def scenario(server: SecuredServer) -> None:
        token = server.registry.new_enrolment(now=900.0, life=1000.0, names=("edge-*",))
        server.guard.refresh()
        server.guard.enrol(token, "tls:" + "e" * 64, "edge-1")
        server.guard.refresh()
        await settle(lambda: any("used by" in r.detail for r in server.records("changed")))

    server.run(scenario)
    details = "\n".join(r.detail for r in server.records("changed"))
    assert "made for edge-*" in details
    assert "unknown -> allowed" in details


def test_a_token_does_not_lead_to_roles_of_the_policy_and_the_attempt_is_recorded(
    server: SecuredServer,
) -> None:
    write_policy(server, "[principals]\n'ops-*' = ['operator']\n")
    key = "tls:" + "e" * 64

    async def scenario(server: SecuredServer) -> None:
        token = server.registry.new_enrolment(now=900.0, life=1000.0)
        server.guard.refresh()
        with pytest.raises(EnrolmentRefused, match="the role operator"):
            server.guard.enrol(token, key, "ops-1")
        for _ in range(100):
            with pytest.raises(EnrolmentRefused):
                server.guard.enrol("drge_0_0", key, "ops-1")
        await settle(lambda: server.records("denied"))

    server.run(scenario)
    assert not server.guard.admits(key)
    denied = [r.detail for r in server.records("denied")]
    assert "the policy gives 'ops-1' the role operator" in denied[0]
    assert len(denied) == PER_WINDOW, "a flood of guesses does not fill the ledger"


def test_the_guard_refreshes_by_itself(server: SecuredServer) -> None:
    async def scenario(server: SecuredServer) -> None:
        await with_a_worker(server)
        server.guard.start()
        server.registry.revoke("will")
        async with asyncio.timeout(1.0):
            await settle(lambda: server.hub.was_cut)

    server.run(scenario)


def test_a_full_disk_does_not_stop_the_guard(server: SecuredServer) -> None:
    (server.data / "names.json").mkdir()
    (server.data / "names.json" / "full").touch()

    async def scenario(server: SecuredServer) -> None:
        await with_a_worker(server)
        server.guard.start()
        await settle(lambda: any("not saved yet" in r.detail for r in server.records("changed")))
        server.registry.revoke("will")
        async with asyncio.timeout(1.0):
            await settle(lambda: server.hub.was_cut)

    server.run(scenario)


def test_a_task_beside_the_body_cannot_hide_the_one_inside(server: SecuredServer) -> None:
    codecs = body_codecs()
    body = codecs["dcp"].write_call(Call("erase", (1,)))
    assert task_in(codecs, body) == "erase"
    assert task_in(codecs, Body("dcp", (b"", b"raw"))) == ""
    assert task_in(codecs, Body("http", (b"{",))) == ""
    assert task_in(codecs, Body("unknown", ())) == ""


def test_http_views_need_the_right_to_the_same_management_task(server: SecuredServer) -> None:
    server.registry.add("tls:" + "d" * 64, "vera", now=0.0, roles=("viewer",))

    async def scenario(server: SecuredServer) -> None:
        server.guard.refresh()
        for what in ("workers", "services", "clients", "jobs", "why", "metrics"):
            assert server.guard.may_view("tls:" + "d" * 64, what) == ""
            assert "no rule of submitter" in server.guard.may_view(SUE, what)
        assert "unknown" in server.guard.may_view("tls:" + "f" * 64, "jobs")

    server.run(scenario)


def test_only_a_proved_worker_may_have_its_secrets(server: SecuredServer) -> None:
    async def scenario(server: SecuredServer) -> None:
        await with_a_worker(server)
        server.say("w1-NFPClient", WILL, submission())
        server.say("c1", SUE, submission())
        await settle(lambda: b"denied" in server.inbox("w1-NFPClient"))
        assert server.guard.is_worker("nfp/w1", "w1")
        assert server.guard.is_worker("nfp/w1-NFPClient", "w1")
        assert not server.guard.is_worker("nfp/w1", "w2")
        assert not server.guard.is_worker("nfp/c1", "c1")
        assert not server.guard.is_worker("dcp/w1", "w1")

    server.run(scenario)


def test_the_worker_of_a_running_job_may_deliver_its_result_after_a_restart(
    server: SecuredServer,
) -> None:
    async def scenario(server: SecuredServer) -> None:
        await with_a_worker(server)
        server.say("c1", SUE, submission())
        await settle(lambda: server.records("dispatched"))

    server.run(scenario)
    (server.data / "names.json").unlink()
    guard = Guard(SecuritySection(enabled=True), server.data, lambda: server.now)
    guard.attach(Loop(server.broker, server.ledger, server.links, Clock()), body_codecs())
    assert guard.gate.names.owner_of(PeerId("nfp/w1")) == "will"
    assert guard.gate.names.owner_of(PeerId("nfp/c1")) == "sue"
    assert guard.gate.meter.open_jobs(Principal("sue")) == 1


def test_a_new_certificate_is_on_record_and_so_is_a_broken_one(tmp_path: Path) -> None:
    tls = write_tls(tmp_path)

    async def scenario(server: SecuredServer) -> None:
        new = new_certificate(AUTHORITY, "broker", ("localhost",))
        tls.certificate.write_text(new.certificate)
        server.guard.refresh()
        server.guard.refresh()
        await settle(lambda: len(server.records("changed")) == 1)
        tls.key.write_text(new.secret)
        server.guard.refresh()
        await settle(lambda: len(server.records("changed")) == 2)

    server = SecuredServer(tmp_path, tls)
    server.run(scenario)
    broken, good = server.records("changed")
    assert "the last good certificate stays in force" in broken.detail
    assert good.detail == "certificate changed: certificate"


def test_the_principal_of_a_schedule_is_asked_about_at_each_tick(server: SecuredServer) -> None:
    def fault(principal: str) -> str:
        job = JobSubmitted(
            JobId("j1"),
            PeerId("local/queue"),
            ServiceName("lift"),
            Body("local", (b"{}",)),
            principal=Principal(principal),
        )
        found = server.guard.scheduled_fault(job)
        return "" if found is None else found.message

    async def scenario(server: SecuredServer) -> None:
        assert fault("sue") == ""
        assert "ann" in fault("ann") or "auditor" in fault("ann")
        assert fault("nobody") == "nobody has no key here"
        assert fault("anonymous")
        server.registry.revoke("sue")
        server.guard.refresh()
        assert "revoked" in fault("sue")

    server.run(scenario)
