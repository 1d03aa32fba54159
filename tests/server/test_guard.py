"""Security in force: what changes on disk is felt by those who are connected."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.server.stage import settle
from tests.transports.tls_files import AUTHORITY, write_tls

from dragoman.core.broker import Broker
from dragoman.core.events import JobSubmitted
from dragoman.dialects.nfp.broker_side import NfpBrokerSide
from dragoman.dialects.nfp.client_side import NfpClientSide
from dragoman.dialects.nfp.worker_side import NfpWorkerSide
from dragoman.dialects.peer_sides import Submission
from dragoman.ledger.memory import MemoryLedger
from dragoman.model.body import Body
from dragoman.model.content import Call
from dragoman.model.names import JobId, PeerId, Principal, ServiceName
from dragoman.model.record import Record
from dragoman.sdk.issuing import new_certificate
from dragoman.security.keys import KeyState
from dragoman.security.registry import KeyRegistry
from dragoman.server.clock import Clock
from dragoman.server.guard import Guard, task_in
from dragoman.server.links import Link, Links
from dragoman.server.loop import Loop
from dragoman.server.settings import SecuritySection
from dragoman.server.wiring import make_body_codecs
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


class House:
    """A broker with security on, in memory, beside real files."""

    def __init__(self, data: Path, certificate: ServerTls | None = None, **said: Any) -> None:
        self.now = 1000.0
        self.data = data
        self.hub = ProvingHub()
        self.ledger = MemoryLedger()
        self.broker = Broker()
        self.links = Links([Link(NfpBrokerSide(codecs=make_body_codecs()), self.hub)])
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

    def run(self, play: Callable[["House"], Awaitable[None]]) -> None:
        async def both() -> None:
            self.guard.attach(self.loop, make_body_codecs())
            await self.links.open()
            serving = asyncio.create_task(self.loop.run())
            try:
                async with asyncio.timeout(10):
                    await play(self)
            finally:
                self.loop.stop()
                await serving
                await self.guard.stop()

        asyncio.run(both())


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def worker(name: str = "w1") -> Any:
    return NfpWorkerSide(name, "lift").join()


def submission(job: str = JOB) -> Any:
    side = NfpClientSide(lambda: job)
    return [*side.hello(), *side.submit(Submission(JobId(job), "lift", Call("run")))]


async def with_a_worker(house: House) -> None:
    house.say("w1", WILL, worker())
    await settle(lambda: house.broker.state.registry.workers)


def test_a_revoked_worker_is_gone_at_the_next_look_and_its_job_goes_on(house: House) -> None:
    async def play(house: House) -> None:
        await with_a_worker(house)
        house.say("c1", SUE, submission())
        await settle(lambda: house.records("dispatched"))
        house.registry.revoke("will")
        house.guard.look()
        await settle(lambda: house.records("requeued"))
        await settle(lambda: house.hub.was_cut)

    house.run(play)
    assert house.hub.was_cut == [WILL]
    assert not house.broker.state.registry.workers
    (left,) = house.records("left")
    assert left.detail == "its key is revoked"
    (changed,) = house.records("changed")
    assert changed.detail.startswith("key tls:aaaaaaaaaaaa...: allowed -> revoked")
    assert changed.principal == "will"


def test_a_key_that_expires_is_cut_off_by_the_clock_alone(house: House) -> None:
    async def play(house: House) -> None:
        await with_a_worker(house)
        house.registry.expire(WILL, 1001.0)
        house.guard.look()
        assert house.broker.state.registry.workers
        house.now = 1001.0
        house.guard.look()
        await settle(lambda: not house.broker.state.registry.workers)
        await settle(lambda: house.hub.was_cut)

    house.run(play)
    assert "allowed -> expired" in house.records("changed")[-1].detail


def test_a_new_key_may_speak_without_a_restart(house: House) -> None:
    new = "tls:" + "d" * 64

    async def play(house: House) -> None:
        assert not house.guard.admits(new)
        house.guard.look()
        assert house.registry.state_of(new, 0.0) is KeyState.UNKNOWN
        assert KeyRegistry.open(house.registry.path).state_of(new, 0.0) is KeyState.PENDING
        assert not house.guard.admits(new)
        house.registry.approve(new, "dora", ("worker",))
        house.guard.look()
        assert house.guard.admits(new)
        house.say("w2", new, worker("w2"))
        await settle(lambda: house.broker.state.registry.workers)

    house.run(play)
    assert house.records("joined")[0].principal == "dora"
    assert any("roles of dora: none -> worker" in r.detail for r in house.records("changed"))


def test_roles_that_are_taken_away_end_what_they_allowed(house: House) -> None:
    async def play(house: House) -> None:
        await with_a_worker(house)
        house.registry.set_roles("will", ("viewer",))
        house.guard.look()
        await settle(lambda: not house.broker.state.registry.workers)

    house.run(play)
    assert house.records("left")[0].detail == "it may not register any more"
    assert house.hub.was_cut == [], "the key may still speak"


def write_policy(house: House, text: str) -> None:
    draft = house.data / "draft"
    draft.write_text(text)
    os.replace(draft, house.data / "policy.toml")


def test_a_policy_is_read_again_and_a_broken_one_is_not_used(house: House) -> None:
    async def play(house: House) -> None:
        write_policy(house, "[principals]\nann = ['submitter']\n")
        house.guard.look()
        assert "submitter" in house.guard.gate.roles_of(Principal("ann"))
        write_policy(house, "[principals]\nann = ['boss']\n")
        house.guard.look()
        house.guard.look()
        assert "submitter" in house.guard.gate.roles_of(Principal("ann"))
        await settle(lambda: len(house.records("changed")) == 2)

    house.run(play)
    first, second = house.records("changed")
    assert first.detail == "policy read again: policy.toml"
    assert "principals.ann" in second.detail
    assert "the last good policy stays in force" in second.detail


def test_a_broken_registry_is_told_once_and_the_last_good_one_stays(house: House) -> None:
    async def play(house: House) -> None:
        house.registry.path.write_text("{")
        house.guard.look()
        house.guard.look()
        assert house.guard.admits(WILL)
        await settle(lambda: house.records("changed"))

    house.run(play)
    assert len(house.records("changed")) == 1


def test_names_of_workers_outlive_the_broker(house: House) -> None:
    house.run(with_a_worker)
    guard = Guard(SecuritySection(enabled=True), house.data, lambda: 1000.0)
    thief = guard._names.claim_peer(PeerId("nfp/w1"), Principal("mallory"))
    assert thief == "will"
    (house.data / "names.json").write_text("{")
    with pytest.raises(ValueError, match=r"names\.json"):
        Guard(SecuritySection(enabled=True), house.data, lambda: 1000.0)


def test_the_names_of_a_revoked_principal_are_free(house: House) -> None:
    async def play(house: House) -> None:
        await with_a_worker(house)
        house.registry.revoke("will")
        house.guard.look()
        house.say("w1", ANN, worker())
        house.registry.set_roles("ann", ("worker",))
        house.guard.look()
        house.say("w1", ANN, worker())
        await settle(lambda: len(house.records("joined")) == 2)

    house.run(play)
    assert house.records("joined")[1].principal == "ann"


def test_a_job_that_has_left_the_memory_still_has_its_owner(house: House) -> None:
    async def play(house: House) -> None:
        house.say("c1", SUE, submission())
        await settle(lambda: house.records("submitted"))
        owner = house.guard._owner_of(JobId(JOB))
        del house.broker.state.store.jobs[JobId(JOB)]
        assert house.guard._owner_of(JobId(JOB)) == owner
        assert owner is not None
        assert (owner.principal, owner.service) == ("sue", "lift")
        assert house.guard._owner_of(JobId("unknown")) is None

    house.run(play)


def test_jobs_that_were_open_before_count_and_their_clients_names_are_taken(house: House) -> None:
    write_policy(house, "[limits.sue]\nopen_jobs = 1\n")
    house.guard = Guard(SecuritySection(enabled=True), house.data, lambda: house.now)
    event = JobSubmitted(
        JobId("old"),
        PeerId("nfp/c1"),
        ServiceName("lift"),
        Body("nfp", (b"{}",)),
        principal=Principal("sue"),
    )
    house.broker.handle(event, house.now)

    async def play(house: House) -> None:
        assert house.guard.gate.meter.open_jobs(Principal("sue")) == 1
        house.say("c1", SUE, submission())
        house.say("c2", ANN, submission())
        await settle(lambda: b"are open already" in house.inbox("c1"))

    house.loop._entries.clear()
    house.broker.state.store.last_seq = 0
    house.run(play)
    assert house.guard.gate.names.owner_of(PeerId("nfp/c1")) == "sue"


def test_who_is_let_in_may_come_in_before_the_next_look(house: House) -> None:
    new = "tls:" + "d" * 64

    async def play(house: House) -> None:
        assert not house.guard.admits(new)
        house.registry.add(new, "dora", now=0.0)
        assert house.guard.admits(new)

    house.run(play)


def test_a_bearer_token_is_looked_up(house: House) -> None:
    secret = house.registry.new_token("tom", now=0.0)

    async def play(house: House) -> None:
        key = house.guard.check_token(secret)
        assert key is not None
        assert house.guard.registry.principal_of(key) == "tom"
        assert house.guard.check_token("nonsense") is None

    house.run(play)


def test_an_enrolment_is_on_record_from_its_making_to_its_use(house: House) -> None:
    async def play(house: House) -> None:
        token = house.registry.new_enrolment(now=900.0, life=1000.0, names=("edge-*",))
        house.guard.look()
        house.guard.registry.enrol(token, "tls:" + "e" * 64, 1000.0, "edge-1")
        house.guard.look()
        await settle(lambda: any("used by" in r.detail for r in house.records("changed")))

    house.run(play)
    details = "\n".join(r.detail for r in house.records("changed"))
    assert "made for edge-*" in details
    assert "unknown -> allowed" in details


def test_the_watch_looks_by_itself(house: House) -> None:
    async def play(house: House) -> None:
        await with_a_worker(house)
        house.guard.start()
        house.registry.revoke("will")
        async with asyncio.timeout(1.0):
            await settle(lambda: house.hub.was_cut)

    house.run(play)


def test_a_disk_that_takes_no_names_does_not_end_the_watch(house: House) -> None:
    (house.data / "names.json").mkdir()
    (house.data / "names.json" / "full").touch()

    async def play(house: House) -> None:
        await with_a_worker(house)
        house.guard.start()
        await settle(lambda: any("not kept" in r.detail for r in house.records("changed")))
        house.registry.revoke("will")
        async with asyncio.timeout(1.0):
            await settle(lambda: house.hub.was_cut)

    house.run(play)


def test_a_task_beside_the_body_cannot_hide_the_one_inside(house: House) -> None:
    codecs = make_body_codecs()
    body = codecs["dcp"].write_call(Call("erase", (1,)))
    assert task_in(codecs, body) == "erase"
    assert task_in(codecs, Body("dcp", (b"", b"raw"))) == ""
    assert task_in(codecs, Body("http", (b"{",))) == ""
    assert task_in(codecs, Body("unknown", ())) == ""


def test_who_may_look_over_http_is_who_may_ask_the_management_service(house: House) -> None:
    house.registry.add("tls:" + "d" * 64, "vera", now=0.0, roles=("viewer",))

    async def play(house: House) -> None:
        house.guard.look()
        for what in ("workers", "services", "clients", "jobs", "why", "metrics"):
            assert house.guard.may_look("tls:" + "d" * 64, what) == ""
            assert "no rule of submitter" in house.guard.may_look(SUE, what)
        assert "nobody here knows" in house.guard.may_look("tls:" + "f" * 64, "jobs")

    house.run(play)


def test_who_may_have_the_secrets_of_a_worker_has_proved_its_name(house: House) -> None:
    async def play(house: House) -> None:
        await with_a_worker(house)
        house.say("w1-NFPClient", WILL, submission())
        house.say("c1", SUE, submission())
        await settle(lambda: b"denied" in house.inbox("w1-NFPClient"))
        assert house.guard.is_worker("nfp/w1", "w1")
        assert house.guard.is_worker("nfp/w1-NFPClient", "w1")
        assert not house.guard.is_worker("nfp/w1", "w2")
        assert not house.guard.is_worker("nfp/c1", "c1")
        assert not house.guard.is_worker("dcp/w1", "w1")

    house.run(play)


def test_who_ran_a_job_when_the_broker_stopped_may_bring_its_result(house: House) -> None:
    async def play(house: House) -> None:
        await with_a_worker(house)
        house.say("c1", SUE, submission())
        await settle(lambda: house.records("dispatched"))

    house.run(play)
    (house.data / "names.json").unlink()
    guard = Guard(SecuritySection(enabled=True), house.data, lambda: house.now)
    guard.attach(Loop(house.broker, house.ledger, house.links, Clock()), make_body_codecs())
    assert guard.gate.names.owner_of(PeerId("nfp/w1")) == "will"
    assert guard.gate.names.owner_of(PeerId("nfp/c1")) == "sue"
    assert guard.gate.meter.open_jobs(Principal("sue")) == 1


def test_a_new_certificate_is_on_record_and_so_is_a_broken_one(tmp_path: Path) -> None:
    tls = write_tls(tmp_path)

    async def play(house: House) -> None:
        new = new_certificate(AUTHORITY, "broker", ("localhost",))
        tls.certificate.write_text(new.certificate)
        house.guard.look()
        house.guard.look()
        await settle(lambda: len(house.records("changed")) == 1)
        tls.key.write_text(new.secret)
        house.guard.look()
        await settle(lambda: len(house.records("changed")) == 2)

    house = House(tmp_path, tls)
    house.run(play)
    broken, good = house.records("changed")
    assert "the last good certificate stays in force" in broken.detail
    assert good.detail == "certificate read again: certificate"
