"""Rules, and the built-in roles. Pure.

A role is a list of rules. A rule allows or denies. A request is allowed if a rule of the
principal's roles allows it and none denies it: a denial wins, whatever the order.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

from dragoman.model.names import EVERY_SERVICE
from dragoman.model.value import value
from dragoman.security.verbs import AccessRequest, TargetClass, Verb

EVERYTHING: Final = ("*",)
EVERY_TARGET: Final = frozenset(TargetClass)
#: Verbs for which a rule may restrict worker names.
_NAMING: Final = frozenset({Verb.SUBMIT, Verb.REGISTER})


@value
class Rule:
    """Allows or denies these verbs for these services, tasks, targets and worker names."""

    verbs: frozenset[Verb]
    services: tuple[str, ...] = EVERYTHING
    tasks: tuple[str, ...] = EVERYTHING
    targets: frozenset[TargetClass] = EVERY_TARGET
    #: Worker names: to register as, and to submit to.
    names: tuple[str, ...] = EVERYTHING
    is_denial: bool = False

    def denies(self, request: AccessRequest) -> bool:
        """Tell whether the rule denies a request, or a part of what it asks for."""
        return (
            self.is_denial
            and request.verb in self.verbs
            and self._denies_service(request.service)
            and matches(request.task, self.tasks)
            and (request.verb is not Verb.SUBMIT or request.target in self.targets)
            and self._denies_names(request)
        )

    def _denies_service(self, service: str) -> bool:
        if not service:
            # The question is whether *any* service is allowed.
            return self.services == EVERYTHING
        # Every service at once includes a denied one.
        return service == EVERY_SERVICE or self._is_for_service(service)

    def _denies_names(self, request: AccessRequest) -> bool:
        if request.verb not in _NAMING or self.names == EVERYTHING:
            return True
        return any(matches(name, self.names) for name in request.names)

    def allows(self, request: AccessRequest) -> bool:
        """Tell whether the rule allows a request."""
        return (
            not self.is_denial
            and request.verb in self.verbs
            and self._is_for_service(request.service)
            and matches(request.task, self.tasks)
            and (request.verb is not Verb.SUBMIT or request.target in self.targets)
            and self._is_for_names(request)
        )

    def _is_for_service(self, service: str) -> bool:
        if not service:
            return True
        if service == EVERY_SERVICE:
            # It means every service at once, so a glob that happens to match is not enough.
            return "*" in self.services
        # A rule for a service also covers its versions (`math@1.2.0`).
        return matches(service, self.services) or (
            "@" in service and matches(service.partition("@")[0], self.services)
        )

    def _is_for_names(self, request: AccessRequest) -> bool:
        if request.verb not in _NAMING or self.names == EVERYTHING:
            return True
        return bool(request.names) and all(matches(name, self.names) for name in request.names)


def matches(text: str, globs: tuple[str, ...]) -> bool:
    """Tell whether one of the globs matches a text."""
    return globs == EVERYTHING or any(fnmatchcase(text, glob) for glob in globs)


Role = tuple[Rule, ...]

_LOOKING: Final = ("show_*", "list_*", "get_stats", "get_status", "why")
_READING: Final = ("show", "get", "get_inventory", "history")
_FETCHING: Final = ("list_roots", "list_files", "file_details", "walk", "fetch_file", "read_file")

_LOOK: Final = Rule(frozenset({Verb.MANAGE}), ("mmi.*",), _LOOKING)
_READ_INVENTORY: Final = Rule(frozenset({Verb.INVENTORY}), EVERYTHING, _READING)
_FETCH_FILES: Final = Rule(frozenset({Verb.FILES}), EVERYTHING, _FETCHING)

#: The built-in roles of every policy.
SHIPPED: Final[Mapping[str, Role]] = {
    # Sees state and counts; never bodies or results.
    "viewer": (_LOOK, _READ_INVENTORY),
    # Submits jobs and reads its own results.
    "submitter": (
        Rule(frozenset({Verb.SUBMIT, Verb.READ_OWN, Verb.CANCEL})),
        _FETCH_FILES,
    ),
    # Manages all jobs, workers, inventory and files.
    "operator": (Rule(frozenset(Verb) - {Verb.REGISTER}),),
    # Offers services, reads its own inventory, fetches files.
    "worker": (
        Rule(frozenset({Verb.REGISTER})),
        Rule(frozenset({Verb.INVENTORY_OWN})),
        _FETCH_FILES,
    ),
    # Sees everything and changes nothing.
    "auditor": (
        Rule(frozenset({Verb.READ_OWN, Verb.READ_OTHERS, Verb.EVENTS})),
        Rule(frozenset({Verb.MANAGE}), ("mmi.*",), (*_LOOKING, "get_logs")),
        _READ_INVENTORY,
    ),
    "admin": (Rule(frozenset(Verb)),),
}
