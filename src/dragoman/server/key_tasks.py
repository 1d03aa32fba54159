"""Management tasks about keys and policy, while security is on.

The registry's own rules apply, as for `dragoman keys`. The guard records each change.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from dragoman.security.gate import Gate
from dragoman.security.keys import brief
from dragoman.security.registry import KeyRegistry, RegistryError
from dragoman.security.verbs import AccessRequest, TargetClass, Verb, canonical_service
from dragoman.services.base import ServiceFault, TaskFunction


class KeyTasks:
    """Lists, approves and revokes keys, and tries the policy."""

    def __init__(
        self,
        registry: KeyRegistry,
        gate: Callable[[], Gate],
        now: Callable[[], float],
        changed: Callable[[], None],
    ) -> None:
        self._registry = registry
        self._gate = gate
        self._now = now
        #: Called after a change of the file, so that it is in force before the answer.
        self._changed = changed
        self.tasks: dict[str, TaskFunction] = {
            "list_keys": self.list_keys,
            "list_roles": self.list_roles,
            "show_decision": self.show_decision,
            "approve_key": self.approve_key,
            "revoke_key": self.revoke_key,
        }

    def list_keys(self) -> list[dict[str, object]]:
        """List every key with its principal and state; keys that tried to connect are pending."""
        registry, now = self._registry, self._now()
        return [
            {
                "key": key,
                "brief": brief(key),
                "principal": entry.principal,
                "state": entry.state_at(now).value,
                "roles": list(registry.entry_of(entry.principal or key).roles),
                "expires_at": entry.expires_at,
                "note": entry.note,
            }
            for key, entry in registry.entries().items()
        ]

    def list_roles(self) -> list[dict[str, object]]:
        """List every role and what its rules allow."""
        return [
            {
                "role": role,
                "verbs": sorted({verb.value for rule in rules for verb in rule.verbs}),
                "services": sorted({name for rule in rules for name in rule.services}),
            }
            for role, rules in self._gate().policy.roles.items()
        ]

    def show_decision(
        self, principal: str, verb: str, service: str = "", task: str = "", target: str = "any"
    ) -> dict[str, object]:
        """Tell whether a principal may do something, and which rule decides."""
        try:
            asked = AccessRequest(Verb(verb), canonical_service(service), task, TargetClass(target))
        except ValueError as error:
            known = ", ".join(Verb), ", ".join(TargetClass)
            raise ServiceFault(f"{error}; verbs: {known[0]}; targets: {known[1]}") from None
        policy = self._gate().policy
        roles = policy.roles_of(principal, self._registry.entry_of(principal).roles)
        decision = policy.decide(roles, asked)
        return {
            "allowed": decision.is_allowed,
            "reason": decision.reason,
            "roles": list(roles),
            "asked": str(asked),
        }

    async def approve_key(
        self, key: str, name: str = "", roles: list[str] | None = None
    ) -> dict[str, object]:
        """Approve a pending key for a principal."""
        found = self._find(key)
        given = tuple(roles or ())
        await self._change(lambda registry: registry.approve(found, name, given))
        return {"key": brief(found), "principal": name or found}

    async def revoke_key(self, key: str) -> dict[str, object]:
        """Revoke a key for good; its connections close at once."""
        whole = self._find(key)
        found = await self._change(lambda registry: registry.revoke(whole))
        return {"revoked": [brief(each) for each in found]}

    async def _change(self, change: Callable[[KeyRegistry], object]) -> Any:
        """Change the file in a thread, as `dragoman keys` does; the guard follows the file."""
        try:
            done = await asyncio.to_thread(lambda: change(self._reopened()))
        except RegistryError as error:
            raise ServiceFault(str(error)) from None
        self._changed()
        return done

    def _reopened(self) -> KeyRegistry:
        found = KeyRegistry.open(self._registry.path)
        found.elsewhere = self._registry.elsewhere
        return found

    def _find(self, text: str) -> str:
        entries = self._registry.entries()
        if text in entries:
            return text
        found = [key for key in entries if key.startswith(text.removesuffix("..."))]
        if len(found) != 1:
            how = "no key begins" if not found else f"{len(found)} keys begin"
            raise ServiceFault(f"{how} with {text!r}; `list_keys` returns full keys")
        return found[0]
