"""Verbs, target classes, and the access request that a policy decides about. Pure.

The service of a request determines the verb: the built-in services are management, inventory and
files; a request to any other service is a submission.
"""

from enum import StrEnum
from typing import Final

from dragoman.model.names import EVERY_SERVICE
from dragoman.model.target import AllWorkers, AnyWorker, Labelled, Named, OnResource, Target
from dragoman.model.value import value


class Verb(StrEnum):
    """An action that a rule can allow."""

    SUBMIT = "submit"  #: submit a job, send it input, forward it to another service
    READ_OWN = "read-own"  #: read the state and result of one's own job
    READ_OTHERS = "read-others"  #: the same for all jobs
    EVENTS = "events"  #: subscribe to events
    CANCEL = "cancel"  #: cancel one's own job, forget its result
    CANCEL_OTHERS = "cancel-others"  #: cancel any job
    MANAGE = "manage"  #: query and control the broker or a worker
    INVENTORY = "inventory"  #: read and change the workers' inventory
    INVENTORY_OWN = "inventory-own"  #: as a worker, read one's own entry of it
    FILES = "files"  #: fetch and put files
    REGISTER = "register"  #: offer services under a name, and publish events


class TargetClass(StrEnum):
    """How a job names the workers it is for."""

    ANY = "any"
    NAMES = "names"
    ALL = "all"
    LABELS = "labels"
    RESOURCES = "resources"


@value
class AccessRequest:
    """A request for the policy. An empty service asks whether any service is allowed."""

    verb: Verb
    service: str = ""
    task: str = ""
    target: TargetClass = TargetClass.ANY
    #: The worker's name, or the names in a target.
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [self.verb.value, self.service or "anything"]
        parts += [f"task {self.task}"] if self.task else []
        parts += [f"for {self.target}"] if self.target is not TargetClass.ANY else []
        parts += [f"as {', '.join(self.names)}"] if self.names else []
        return " ".join(parts)


_CLASSES: Final[dict[type, TargetClass]] = {
    AnyWorker: TargetClass.ANY,
    Named: TargetClass.NAMES,
    AllWorkers: TargetClass.ALL,
    Labelled: TargetClass.LABELS,
    OnResource: TargetClass.RESOURCES,
}
_BUILTIN: Final = {
    "mmi": Verb.MANAGE,
    "sid": Verb.INVENTORY,
    "fss": Verb.FILES,
    "filesharing": Verb.FILES,
}
#: Management tasks that need another verb.
_OF_MANAGEMENT: Final = {
    "events": Verb.EVENTS,
    "publish": Verb.REGISTER,
    "forget_result": Verb.CANCEL,
}
#: Tasks that an SDK worker runs as management if it defines none of that name.
_OF_WORKERS: Final = frozenset({"restart", "disconnect", "shutdown", "own"})


def class_of(target: Target) -> TargetClass:
    """Return the class of a target."""
    return _CLASSES[type(target)]


def canonical_service(service: str) -> str:
    """Return a service's name as rules write it: built-in services may come in capitals."""
    lower = service.lower()
    return lower if lower.partition(".")[0] in _BUILTIN else service


def verb_for(service: str, task: str) -> Verb:
    """Return the verb that a request to a service needs."""
    lower = task.lower()
    if lower.startswith("mmi.") or lower in _OF_WORKERS:
        return Verb.MANAGE
    verb = _BUILTIN.get(service.lower().partition(".")[0], Verb.SUBMIT)
    return _OF_MANAGEMENT.get(lower, verb) if verb is Verb.MANAGE else verb


def access_request_for(service: str, task: str, target: Target) -> AccessRequest:
    """Return the access request for a submission."""
    verb = verb_for(service, task)
    if verb is Verb.EVENTS:
        # The answer has the events of every service.
        return AccessRequest(verb, EVERY_SERVICE)
    if verb in (Verb.REGISTER, Verb.CANCEL):
        # The task itself looks whose job it is.
        return AccessRequest(verb)
    return AccessRequest(
        verb, canonical_service(service), task, class_of(target), getattr(target, "names", ())
    )
