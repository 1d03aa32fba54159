"""Keys and policy by management tasks."""

import asyncio
from pathlib import Path

import pytest

from dragoman.security.gate import Gate
from dragoman.security.keys import KeyState
from dragoman.security.policy import Policy
from dragoman.security.registry import KeyRegistry
from dragoman.server.key_tasks import KeyTasks
from dragoman.services.base import ServiceFault

KEY = "curve:" + "ab" * 20


@pytest.fixture
def registry(tmp_path: Path) -> KeyRegistry:
    registry = KeyRegistry.open(tmp_path / "registry.json")
    registry.new_token("anna", now=1.0, roles=("admin",))
    registry.add(KEY, now=1.0, state=KeyState.PENDING, note="connected")
    return registry


@pytest.fixture
def tasks(registry: KeyRegistry) -> KeyTasks:
    gate = Gate(registry, Policy(), owner_of=lambda job: None)
    return KeyTasks(registry, lambda: gate, lambda: 2.0, lambda: None)


def test_keys_are_listed_with_their_state(tasks: KeyTasks) -> None:
    found = {row["principal"]: row for row in tasks.list_keys()}
    assert found["anna"]["state"] == "allowed"
    assert found["anna"]["roles"] == ["admin"]
    assert (found[""]["key"], found[""]["state"]) == (KEY, "pending")


def test_a_pending_key_is_approved_and_revoked_by_its_beginning(
    tasks: KeyTasks, registry: KeyRegistry
) -> None:
    done = asyncio.run(tasks.approve_key("curve:ab", "edge", ["worker"]))
    assert done["principal"] == "edge"
    registry.refresh(2.0)
    assert registry.state_of(KEY, 2.0) is KeyState.ALLOWED
    assert registry.entry_of("edge").roles == ("worker",)
    asyncio.run(tasks.revoke_key(KEY))
    registry.refresh(2.0)
    assert registry.state_of(KEY, 2.0) is KeyState.REVOKED


def test_mistakes_are_named(tasks: KeyTasks) -> None:
    with pytest.raises(ServiceFault, match="no key begins with 'curve:ff'"):
        asyncio.run(tasks.approve_key("curve:ff", "edge"))
    asyncio.run(tasks.revoke_key(KEY))
    with pytest.raises(ServiceFault, match="revoked for good"):
        asyncio.run(tasks.approve_key(KEY, "edge"))
    with pytest.raises(ServiceFault, match="verbs: submit"):
        tasks.show_decision("anna", "fly")


def test_the_policy_is_tried_without_doing_anything(tasks: KeyTasks) -> None:
    assert tasks.show_decision("anna", "submit", "math")["allowed"]
    refused = tasks.show_decision("nobody", "submit", "math")
    assert (refused["allowed"], refused["roles"]) == (False, [])
    assert {row["role"] for row in tasks.list_roles()} >= {"viewer", "admin"}
