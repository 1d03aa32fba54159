"""Rules and the roles that ship with the product. Pure.

A role is a list of rules and each rule allows something; nothing forbids. What no rule of any of
a principal's roles allows is denied.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

from dragoman.model.names import EVERY_SERVICE
from dragoman.model.value import value
from dragoman.security.verbs import AccessRequest, TargetClass, Verb

EVERYTHING: Final = ("*",)
EVERY_TARGET: Final = frozenset(TargetClass)
#: Verbs that say something about workers by their names.
_NAMING: Final = frozenset({Verb.SUBMIT, Verb.REGISTER})


@value
class Rule:
    """One thing that is allowed: these verbs, for these services, tasks, targets and names."""

    verbs: frozenset[Verb]
    services: tuple[str, ...] = EVERYTHING
    tasks: tuple[str, ...] = EVERYTHING
    targets: frozenset[TargetClass] = EVERY_TARGET
    #: Of workers: what one may be called that registers, and whom a submission may be for.
    names: tuple[str, ...] = EVERYTHING

    def allows(self, ask: AccessRequest) -> bool:
        """Tell whether this is among what the rule allows."""
        return (
            ask.verb in self.verbs
            and self._is_for_service(ask.service)
            and matches(ask.task, self.tasks)
            and (ask.verb is not Verb.SUBMIT or ask.target in self.targets)
            and self._is_for_names(ask)
        )

    def _is_for_service(self, service: str) -> bool:
        if not service:
            return True
        if service == EVERY_SERVICE:
            # It stands for every service at once, so a glob that happens to fit is not enough.
            return "*" in self.services
        # What is said of a service holds for each of its versions (`math@1.2.0`) as well.
        return matches(service, self.services) or (
            "@" in service and matches(service.partition("@")[0], self.services)
        )

    def _is_for_names(self, ask: AccessRequest) -> bool:
        if ask.verb not in _NAMING or self.names == EVERYTHING:
            return True
        return bool(ask.names) and all(matches(name, self.names) for name in ask.names)


def matches(text: str, globs: tuple[str, ...]) -> bool:
    """Tell whether a text fits one of some globs."""
    return globs == EVERYTHING or any(fnmatchcase(text, glob) for glob in globs)


Role = tuple[Rule, ...]

_LOOKING: Final = ("show_*", "list_*", "get_stats", "get_status", "why")
_READING: Final = ("show", "get", "get_inventory", "history")
_FETCHING: Final = ("list_files", "file_details", "walk", "fetch_file", "read_file")

_LOOK: Final = Rule(frozenset({Verb.MANAGE}), ("mmi.*",), _LOOKING)
_READ_INVENTORY: Final = Rule(frozenset({Verb.INVENTORY}), EVERYTHING, _READING)
_FETCH_FILES: Final = Rule(frozenset({Verb.FILES}), EVERYTHING, _FETCHING)

#: The roles that every policy has.
SHIPPED: Final[Mapping[str, Role]] = {
    # Sees that things go on, and how; never what they were about.
    "viewer": (_LOOK, _READ_INVENTORY),
    # Has work done and gets its own results.
    "submitter": (
        Rule(frozenset({Verb.SUBMIT, Verb.READ_OWN, Verb.CANCEL})),
        _FETCH_FILES,
    ),
    # Runs the place: everybody's jobs, workers, inventory and files.
    "operator": (Rule(frozenset(Verb) - {Verb.REGISTER}),),
    # Offers services; reads its own inventory and fetches files.
    "worker": (
        Rule(frozenset({Verb.REGISTER})),
        Rule(frozenset({Verb.INVENTORY}), EVERYTHING, ("get_inventory",)),
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
