"""Tokens of issuers as keys: states, principals, groups, and what the gate makes of them."""

from tests.security.keyring import NOW, ring

from dragoman.core.events import EventDenied, JobSubmitted
from dragoman.model.body import Body
from dragoman.model.names import JobId, PeerId, Principal, ServiceName
from dragoman.model.target import AnyWorker
from dragoman.model.terms import Terms
from dragoman.security import issued_tokens
from dragoman.security.gate import Gate
from dragoman.security.identities import PeerIdentity
from dragoman.security.issued_tokens import IssuedToken, TokenKeys, revocation_key, token_key
from dragoman.security.keys import KeyState
from dragoman.security.policy_text import read_policy
from dragoman.security.registry_data import KeyEntry

ANNA = Principal("corp:anna")
POLICY = """
[groups]
"corp:netops" = ["submitter"]
"""
FULL, BARE = token_key("one"), token_key("two")


def keys() -> TokenKeys:
    """Return two tokens of one principal: with groups and without."""
    found = TokenKeys(ring(sue="submitter"))
    found.add(FULL, IssuedToken(ANNA, ("corp:netops", "corp:staff"), NOW + 10))
    found.add(BARE, IssuedToken(ANNA, (), NOW + 20))
    return found


def submission(peer: str) -> JobSubmitted:
    body = Body("nfp", (b"{}",))
    return JobSubmitted(
        JobId("j1"), PeerId(peer), ServiceName("resize"), body, AnyWorker(), Terms()
    )


def test_the_key_of_a_token_does_not_tell_the_token() -> None:
    assert FULL.startswith("jwt:")
    assert "one" not in FULL
    assert FULL != BARE


def test_a_token_is_allowed_until_it_expires() -> None:
    found = keys()
    assert found.state_of(FULL, NOW) is KeyState.ALLOWED
    assert found.state_of(FULL, NOW + 10) is KeyState.EXPIRED
    assert found.state_of(token_key("other"), NOW) is KeyState.UNKNOWN
    assert [key for key, _ in found.remove_expired(NOW + 10)] == [FULL]
    assert found.tokens_of(ANNA) == [BARE]


def test_the_keys_of_the_registry_are_what_they_were() -> None:
    found = keys()
    assert found.state_of("sue", NOW) is KeyState.ALLOWED
    assert found.principal_of("sue") == "sue"
    assert found.entry_of("sue").roles == ("submitter",)
    assert found.groups_of("sue") == ()


def test_the_registry_revokes_every_token_of_a_principal() -> None:
    registry = ring()
    registry.keys[revocation_key(ANNA)] = KeyEntry(ANNA, KeyState.REVOKED)
    found = TokenKeys(registry)
    found.add(FULL, IssuedToken(ANNA, (), NOW + 10))
    found.add(BARE, IssuedToken(Principal("corp:vera"), (), NOW + 10))
    assert found.state_of(FULL, NOW) is KeyState.REVOKED
    assert found.state_of(BARE, NOW) is KeyState.ALLOWED


def test_the_oldest_token_gives_way() -> None:
    found = keys()
    for number in range(issued_tokens.MOST_TOKENS):
        found.add(f"jwt:{number}", IssuedToken(ANNA, (), NOW + 10))
    assert found.find(FULL) is None
    assert len(found.tokens_of(ANNA)) == issued_tokens.MOST_TOKENS


def test_each_token_gives_the_roles_of_its_own_groups() -> None:
    found = keys()
    gate = Gate(found, read_policy(POLICY), owner_of=lambda job: None)
    for key, peer, is_allowed in ((FULL, "http/a", True), (BARE, "http/b", False)):
        identity = gate.identify(key, PeerId(peer), NOW)
        assert isinstance(identity, PeerIdentity)
        assert identity.principal == ANNA
        (checked,) = gate.check(submission(peer), identity, NOW)
        assert isinstance(checked, EventDenied) is not is_allowed
        roles = gate.roles_of(ANNA, PeerId(peer))
        assert roles == (("submitter",) if is_allowed else ())
    assert gate.roles_of(ANNA) == ()
