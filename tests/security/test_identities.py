"""From a key to the identity of its peer."""

import pytest

from dragoman.model.fault import FaultCode
from dragoman.model.names import Principal
from dragoman.security.identities import PeerIdentities
from dragoman.security.keys import KeyState
from dragoman.security.policy_text import read_policy
from dragoman.security.registry_data import KeyEntry, PrincipalEntry, RegistryData

POLICY = read_policy(
    """
    [principals]
    alice = ["operator"]
    anonymous = ["viewer"]
    [limits.alice]
    open_jobs = 3
    """
)


def register(state: KeyState = KeyState.ALLOWED) -> RegistryData:
    entry = PrincipalEntry(("worker",), ("lift",), ("edge-*",))
    return RegistryData(keys={"k": KeyEntry("alice", state)}, principals={"alice": entry})


def test_a_key_gives_its_principal_with_all_of_its_roles() -> None:
    who = PeerIdentities(register(), POLICY).of_key("k", 0.0)
    assert (who.principal, who.roles, who.fault) == ("alice", ("worker", "operator"), None)
    assert who.entry.services == ("lift",)
    assert who.allowance.open_jobs == 3


@pytest.mark.parametrize("state", [KeyState.PENDING, KeyState.REVOKED, KeyState.EXPIRED])
def test_a_key_in_any_other_state_is_refused(state: KeyState) -> None:
    who = PeerIdentities(register(state), POLICY).of_key("k", 0.0)
    assert who.principal == "alice"
    assert who.fault is not None
    assert who.fault.code is FaultCode.DENIED


def test_an_unknown_key_is_refused() -> None:
    who = PeerIdentities(register(), POLICY).of_key("other", 0.0)
    assert who.principal == "other"
    assert who.fault is not None
    assert "this key is unknown" in who.fault.message


def test_no_key_is_anonymous_and_has_what_the_policy_gives_it() -> None:
    who = PeerIdentities(register(), POLICY).of_key("", 0.0)
    assert (who.principal, who.roles, who.fault) == ("anonymous", ("viewer",), None)
    assert PeerIdentities(register(), read_policy("")).of_key("", 0.0).roles == ()


def test_identities_are_cached_until_they_are_forgotten() -> None:
    held = register()
    speakers = PeerIdentities(held, POLICY)
    assert speakers.of_key("k", 0.0) is speakers.of_key("k", 1.0)
    held.keys["k"].state = KeyState.REVOKED
    speakers.forget()
    assert speakers.of_key("k", 2.0).fault is not None
    assert speakers.roles_of(Principal("alice")) == ("worker", "operator")
