"""Whose a name is."""

from dragoman.model.names import PeerId, Principal, WorkerName
from dragoman.security import name_owners as module
from dragoman.security.name_owners import NameOwners, is_chosen

ALICE, MALLORY = Principal("alice"), Principal("mallory")
PEER, NAME = PeerId("nfp/edge-1"), WorkerName("edge-1")


def test_a_name_belongs_to_the_principal_that_proved_it_first() -> None:
    names = NameOwners()
    assert names.claim_peer(PEER, ALICE) is None
    assert names.claim_peer(PEER, ALICE) is None
    assert names.claim_peer(PEER, MALLORY) == ALICE
    assert names.owner_of(PEER) == ALICE
    assert names.claim_worker(NAME, PEER, ALICE, is_chosen=True) is None
    assert names.claim_worker(NAME, PeerId("dcp/x"), MALLORY, is_chosen=True) == ALICE


def test_the_names_of_revoked_principals_are_free() -> None:
    names = NameOwners(is_gone=lambda principal: principal == ALICE)
    names.claim_peer(PEER, ALICE)
    names.claim_worker(NAME, PEER, ALICE, is_chosen=True)
    assert names.claim_peer(PEER, MALLORY) is None
    assert names.claim_worker(NAME, PEER, MALLORY, is_chosen=True) is None
    assert names.owner_of(PEER) == MALLORY


def test_names_that_workers_chose_outlive_the_process() -> None:
    names = NameOwners()
    names.claim_worker(NAME, PEER, ALICE, is_chosen=True)
    names.claim_worker(WorkerName("memo-00"), PeerId("memo/00"), ALICE, is_chosen=False)
    names.claim_worker(WorkerName("lift"), PeerId("nfp/0x00ff"), ALICE, is_chosen=True)
    assert names.is_dirty
    assert set(names.kept) == {"worker:edge-1", "peer:nfp/edge-1", "worker:lift"}
    again = NameOwners()
    again.restore(names.kept)
    assert again.claim_peer(PEER, MALLORY) == ALICE
    assert again.claim_worker(NAME, PeerId("dcp/x"), MALLORY, is_chosen=True) == ALICE
    assert again.kept == names.kept


def test_released_names_may_be_claimed_again() -> None:
    names = NameOwners()
    names.claim_peer(PEER, ALICE)
    names.claim_worker(NAME, PEER, ALICE, is_chosen=True)
    names.claim_peer(PeerId("nfp/other"), MALLORY)
    assert names.peers_of(ALICE) == [PEER]
    names.release([ALICE])
    assert not names.kept
    assert names.claim_peer(PEER, MALLORY) is None
    assert names.claim_worker(NAME, PEER, MALLORY, is_chosen=True) is None


def test_the_number_of_peer_names_is_bounded_and_workers_are_kept() -> None:
    names = NameOwners()
    names.claim_peer(PEER, ALICE)
    names.claim_worker(NAME, PEER, ALICE, is_chosen=True)
    for number in range(module.MOST_PEERS + 10):
        names.claim_peer(PeerId(f"nfp/{number}"), MALLORY)
    assert len(names._peers) == module.MOST_PEERS
    assert names.owner_of(PEER) == ALICE
    assert names.owner_of(PeerId("nfp/0")) is None


def test_a_name_that_a_transport_or_the_broker_made_up_was_not_chosen() -> None:
    assert is_chosen(NAME, PEER, "nfp")
    assert not is_chosen(WorkerName("0x00ff"), PeerId("dcp/0x00ff"), "dcp")
    assert not is_chosen(WorkerName("memo-00"), PeerId("memo/00"), "memo01")
    assert not is_chosen(WorkerName("broker"), PeerId("local/broker"), "local")
