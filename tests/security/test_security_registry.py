"""The registry on disk: keys, tokens, enrolment, and two processes at once."""

import errno
import json
import os
from pathlib import Path

import pytest

from dragoman.security.keys import KeyChange, KeyState
from dragoman.security.policy import Policy
from dragoman.security.registry import MOST_PENDING, EnrolmentRefused, KeyRegistry, RegistryError

CURVE = "curve:" + "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"
OTHER = "tls:" + "0f" * 32

NO_GRANTS = Policy()


@pytest.fixture
def registry(tmp_path: Path) -> KeyRegistry:
    return KeyRegistry.open(tmp_path / "registry.json")


def key(number: int) -> str:
    return f"tls:{number:064x}"


def test_a_new_key_is_allowed_and_an_unknown_one_is_not(registry: KeyRegistry) -> None:
    registry.add(CURVE, "alice", now=0.0, roles=("submitter",))
    assert registry.admits(CURVE, 1.0)
    assert registry.principal_of(CURVE) == "alice"
    assert registry.entry_of("alice").roles == ("submitter",)
    assert registry.state_of(OTHER, 1.0) is KeyState.UNKNOWN
    assert not registry.admits(OTHER, 1.0)
    assert not registry.admits("", 1.0)


def test_another_process_sees_a_change_at_its_next_refresh(registry: KeyRegistry) -> None:
    broker = KeyRegistry.open(registry.path)
    told: list[KeyChange] = []
    broker.on_change(told.extend)
    registry.add(CURVE, "alice", now=0.0)
    broker.refresh(1.0)
    registry.revoke("alice")
    broker.refresh(2.0)
    assert not broker.admits(CURVE, 2.0)
    assert told == [
        KeyChange(CURVE, broker.principal_of(CURVE), KeyState.UNKNOWN, KeyState.ALLOWED),
        KeyChange(CURVE, broker.principal_of(CURVE), KeyState.ALLOWED, KeyState.REVOKED),
    ]
    assert broker.refresh(3.0) == ()


def test_time_alone_expires_a_key_and_listeners_are_called(registry: KeyRegistry) -> None:
    registry.add(CURVE, "alice", now=0.0, expires_at=10.0)
    registry.refresh(9.0)
    (change,) = registry.refresh(10.0)
    assert (change.before, change.after) == (KeyState.ALLOWED, KeyState.EXPIRED)
    assert not registry.admits(CURVE, 10.0)


def test_a_revoked_key_never_comes_back(registry: KeyRegistry) -> None:
    registry.add(CURVE, "alice", now=0.0)
    registry.revoke(CURVE)
    with pytest.raises(RegistryError, match="revoked"):
        registry.approve(CURVE)
    with pytest.raises(RegistryError, match="already"):
        registry.add(CURVE, "alice", now=1.0)
    token = registry.new_enrolment(now=1.0)
    with pytest.raises(EnrolmentRefused, match="already"):
        registry.enrol(token, CURVE, 2.0, policy=NO_GRANTS)


def test_a_principal_may_have_two_keys_and_loses_all_of_them_by_name(registry: KeyRegistry) -> None:
    registry.add(CURVE, "alice", now=0.0, roles=("viewer",))
    registry.add(OTHER, "alice", now=0.0, roles=("operator",))
    assert registry.entry_of("alice").roles == ("viewer", "operator")
    assert sorted(registry.revoke("alice")) == sorted([CURVE, OTHER])
    with pytest.raises(RegistryError, match="no key or principal"):
        registry.revoke("bob")


def test_a_bearer_token_is_recognised_by_its_secret_which_is_not_stored(
    registry: KeyRegistry,
) -> None:
    secret = registry.new_token("carol", now=0.0, roles=("viewer",), expires_at=100.0)
    found = registry.check_token(secret, 1.0)
    assert found is not None
    assert registry.principal_of(found) == "carol"
    assert secret not in registry.path.read_text()
    assert registry.check_token(secret + "x", 1.0) is None
    assert registry.check_token(secret.replace("drgt", "drge"), 1.0) is None
    assert registry.check_token("", 1.0) is None
    assert registry.check_token(secret, 100.0) is None
    registry.revoke(found)
    assert registry.check_token(secret, 1.0) is None


def test_an_enrolment_token_allows_one_key_once(registry: KeyRegistry) -> None:
    token = registry.new_enrolment(now=0.0, services=("resize",), names=("edge-*",))
    assert token not in registry.path.read_text()
    principal = registry.enrol(token, CURVE, 1.0, "edge-1", policy=NO_GRANTS)
    assert registry.admits(CURVE, 1.0)
    entry = registry.entry_of(principal)
    assert (entry.roles, entry.services, entry.names) == (("worker",), ("resize",), ("edge-*",))
    with pytest.raises(EnrolmentRefused, match="already used"):
        KeyRegistry.open(registry.path).enrol(token, OTHER, 2.0, "edge-2", policy=NO_GRANTS)
    assert not registry.admits(OTHER, 2.0)


def test_an_enrolment_token_is_bound_in_time_and_name(registry: KeyRegistry) -> None:
    token = registry.new_enrolment(now=0.0, life=10.0, names=("edge-*",), key_life=60.0)
    with pytest.raises(EnrolmentRefused, match="not for the name"):
        registry.enrol(token, CURVE, 1.0, "core-1", policy=NO_GRANTS)
    with pytest.raises(EnrolmentRefused, match="expired"):
        registry.enrol(token, CURVE, 10.0, "edge-1", policy=NO_GRANTS)
    with pytest.raises(EnrolmentRefused, match="no such"):
        registry.enrol(token[:-1] + "?", CURVE, 1.0, "edge-1", policy=NO_GRANTS)
    registry.enrol(token, CURVE, 9.0, "edge-1", policy=NO_GRANTS)
    assert registry.admits(CURVE, 68.9)
    assert registry.state_of(CURVE, 69.0) is KeyState.EXPIRED


def test_a_name_that_has_a_key_cannot_be_enrolled(registry: KeyRegistry) -> None:
    registry.add(CURVE, "edge-1", now=0.0)
    token = registry.new_enrolment(now=0.0)
    with pytest.raises(EnrolmentRefused, match="already has a key"):
        registry.enrol(token, OTHER, 1.0, "edge-1", policy=NO_GRANTS)
    assert registry.enrol(token, OTHER, 1.0, policy=NO_GRANTS) == OTHER


def test_a_full_disk_does_not_delay_a_revocation(
    registry: KeyRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.add(CURVE, "alice", now=0.0, roles=("submitter",))
    broker = KeyRegistry.open(registry.path)
    told: list[KeyChange] = []
    broker.on_change(told.extend)
    registry.revoke("alice")
    broker.add_pending(OTHER, 1.0, "nfp")

    def full(path: Path, content: bytes, mode: int = 0o600) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr("dragoman.security.registry.replace_file", full)
    with pytest.raises(OSError, match="no space"):
        broker.refresh(1.0)
    assert (CURVE, KeyState.REVOKED) in [(change.key, change.after) for change in told]


def test_unknown_keys_wait_for_approval_and_their_number_is_bounded(registry: KeyRegistry) -> None:
    for number in range(3 * MOST_PENDING):
        registry.add_pending(key(number), 0.0, "nfp")
    registry.refresh(0.0)
    registry.add_pending(key(10**6), 1.0, "nfp")
    registry.refresh(1.0)
    assert len(registry.entries()) == MOST_PENDING
    assert registry.state_of(key(0), 1.0) is KeyState.PENDING
    assert not registry.admits(key(0), 1.0)
    registry.approve(key(0), "dora", ("worker",))
    assert registry.admits(key(0), 1.0)
    assert registry.entry_of("dora").roles == ("worker",)


def test_a_broken_file_is_named_and_the_last_good_one_stays_in_force(registry: KeyRegistry) -> None:
    registry.add(CURVE, "alice", now=0.0)
    registry.path.write_text('{"keys": {"a": 1}}')
    with pytest.raises(RegistryError, match=r"registry\.json.*keys"):
        registry.refresh(1.0)
    assert registry.admits(CURVE, 1.0)


def test_a_change_that_fails_changes_nothing(registry: KeyRegistry) -> None:
    registry.add(CURVE, "alice", now=0.0)
    before = registry.path.read_bytes()
    with pytest.raises(RegistryError, match="no key"):
        registry.approve(OTHER)
    with pytest.raises(ValueError, match="no name"):
        registry.approve(CURVE, "a b")
    assert registry.path.read_bytes() == before
    assert json.loads(before)["keys"][CURVE]["principal"] == "alice"


def test_the_file_is_for_its_owner_only(registry: KeyRegistry) -> None:
    registry.add(CURVE, "alice", now=0.0)
    assert os.stat(registry.path).st_mode & 0o077 == 0


def test_roles_and_the_expiry_of_a_key_can_be_set(registry: KeyRegistry) -> None:
    registry.add(CURVE, "alice", now=0.0, roles=("admin",))
    registry.set_roles("alice", ("viewer",))
    assert registry.entry_of("alice").roles == ("viewer",)
    with pytest.raises(RegistryError, match="no principal"):
        registry.set_roles("bob", ("viewer",))
    registry.expire(CURVE, 5.0)
    assert registry.state_of(CURVE, 6.0) is KeyState.EXPIRED


def test_a_name_to_which_the_policy_gives_more_roles_cannot_be_enrolled(
    registry: KeyRegistry,
) -> None:
    policy = Policy(grants={"ops-*": ("operator",), "edge-*": ("worker",)})
    token = registry.new_enrolment(now=0.0, names=("*",))
    with pytest.raises(EnrolmentRefused, match="gives 'ops-1' the role operator"):
        registry.enrol(token, CURVE, 1.0, "ops-1", policy=policy)
    with pytest.raises(EnrolmentRefused, match="the role admin"):
        registry.enrol(token, CURVE, 1.0, policy=Policy(grants={"*": ("admin",)}))
    assert registry.enrol(token, CURVE, 1.0, "edge-1", policy=policy) == "edge-1"


def test_a_token_may_have_the_roles_of_the_policy(registry: KeyRegistry) -> None:
    policy = Policy(grants={"ops-*": ("operator",)})
    token = registry.new_enrolment(now=0.0, names=("ops-*",), roles=("worker", "operator"))
    assert registry.enrol(token, CURVE, 1.0, "ops-1", policy=policy) == "ops-1"
