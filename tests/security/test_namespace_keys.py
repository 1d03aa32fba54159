"""The namespace of a key, of a token and of an invitation."""

from pathlib import Path

import pytest

from dragoman.security.keys import KeyState
from dragoman.security.namespace_keys import NamespaceKeys
from dragoman.security.policy import Policy
from dragoman.security.registry import KeyRegistry, RegistryError

KEY = "nkey:U" + "A" * 55
NOW = 1000.0


@pytest.fixture
def registries(tmp_path: Path) -> dict[str, KeyRegistry]:
    return {name: KeyRegistry.open(tmp_path / f"{name}.json") for name in ("default", "acme")}


@pytest.fixture
def keys(registries: dict[str, KeyRegistry]) -> NamespaceKeys:
    copies = {name: KeyRegistry.open(each.path) for name, each in registries.items()}
    return NamespaceKeys(copies, lambda: NOW)


def test_a_key_belongs_to_the_namespace_that_has_it_from_the_moment_it_is_added(
    registries: dict[str, KeyRegistry], keys: NamespaceKeys
) -> None:
    assert keys.owners_of(KEY) == []
    registries["acme"].add(KEY, "sue", now=NOW)
    assert keys.owners_of(KEY) == ["acme"]
    assert keys.is_elsewhere("default", KEY)
    assert not keys.is_elsewhere("acme", KEY)


def test_a_pending_key_belongs_to_no_namespace_and_a_revoked_one_still_to_its_own(
    registries: dict[str, KeyRegistry], keys: NamespaceKeys
) -> None:
    registries["default"].add(KEY, now=NOW, state=KeyState.PENDING)
    assert keys.owners_of(KEY) == []
    registries["acme"].add(KEY, "sue", now=NOW)
    registries["acme"].revoke("sue")
    assert keys.owners_of(KEY) == ["acme"]


def test_tokens_lead_to_their_namespace(
    registries: dict[str, KeyRegistry], keys: NamespaceKeys
) -> None:
    bearer = registries["acme"].new_token("sue", now=NOW)
    invitation = registries["acme"].new_enrolment(now=NOW)
    assert keys.owner_of_token(bearer) == "acme"
    assert keys.owner_of_enrolment(invitation) == "acme"
    for wrong in ("", "drgt_000000_x", bearer[:-1]):
        assert keys.owner_of_token(wrong) == ""
        assert keys.owner_of_enrolment(wrong) == ""


def test_a_broken_registry_leaves_the_last_good_content(
    registries: dict[str, KeyRegistry], keys: NamespaceKeys
) -> None:
    registries["acme"].add(KEY, "sue", now=NOW)
    assert keys.owners_of(KEY) == ["acme"]
    registries["acme"].path.write_text("{")
    assert keys.owners_of(KEY) == ["acme"]


def test_a_namespace_takes_no_key_that_another_has(
    registries: dict[str, KeyRegistry], keys: NamespaceKeys
) -> None:
    default, acme = registries["default"], registries["acme"]
    default.elsewhere = lambda key: keys.is_elsewhere("default", key)
    default.add(KEY, now=NOW, state=KeyState.PENDING)
    acme.add(KEY, "sue", now=NOW)
    token = default.new_enrolment(now=NOW)
    with pytest.raises(RegistryError, match="in use elsewhere"):
        default.approve(KEY, "mal")
    with pytest.raises(RegistryError, match="in use elsewhere"):
        default.add(KEY, "mal", now=NOW)
    with pytest.raises(RegistryError, match="in use elsewhere"):
        default.enrol(token, KEY, NOW, "mal", policy=Policy())
