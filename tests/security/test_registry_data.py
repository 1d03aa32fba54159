"""What the registry holds, and its form on disk."""

import pytest

from dragoman.security.keys import KeyState
from dragoman.security.registry_data import (
    Enrolment,
    KeyEntry,
    PrincipalEntry,
    RegistryData,
    read_register,
    write_register,
)

KEY = "token:0a1b2c3d4e5f"


def test_registry_data_reads_back_as_written() -> None:
    register = RegistryData(
        keys={KEY: KeyEntry("alice", KeyState.ALLOWED, 1.0, 9.0, "00", "why")},
        principals={"alice": PrincipalEntry(("admin",), ("a*",), ("b*",))},
        enrolments={"x": Enrolment("00", 5.0, used_by=KEY)},
    )
    assert read_register(write_register(register)) == register
    assert read_register(b"{}") == RegistryData()


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"keys": {"a": 1}}', b'{"version": 9}'])
def test_a_broken_form_is_named(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_register(raw)


def test_time_expires_allowed_keys_and_no_others() -> None:
    entry = KeyEntry("alice", KeyState.ALLOWED, 0.0, 10.0)
    assert entry.state_at(9.9) is KeyState.ALLOWED
    assert entry.state_at(10.0) is KeyState.EXPIRED
    assert KeyEntry("a", KeyState.REVOKED, 0.0, 10.0).state_at(11.0) is KeyState.REVOKED
    assert KeyEntry("a", KeyState.ALLOWED).state_at(1e12) is KeyState.ALLOWED


def test_a_key_without_a_name_is_its_own_principal() -> None:
    register = RegistryData(keys={KEY: KeyEntry(), "tls:1": KeyEntry("bob")})
    assert register.principal_of(KEY) == KEY
    assert register.principal_of("tls:1") == "bob"
    assert register.principal_of("tls:2") == "tls:2"
    assert register.keys_of("bob") == ["tls:1"]
    assert register.keys_of(KEY) == [KEY]
    assert register.state_of("tls:2", 0.0) is KeyState.UNKNOWN
