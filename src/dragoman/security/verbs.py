"""What a principal can ask for: verbs, classes of targets, and the question that a policy answers.

Pure. Which verb a request needs follows from the service it is for: the broker's own services are
management, inventory and files; a request to any other is a submission.
"""

from enum import StrEnum
from typing import Final

from dragoman.model.names import EVERY_SERVICE
from dragoman.model.target import AllWorkers, AnyWorker, Labelled, Named, OnResource, Target
from dragoman.model.value import value


class Verb(StrEnum):
    """What may be done."""

    SUBMIT = "submit"  #: ask for work, give it input, pass it on to another service
    READ_OWN = "read-own"  #: see how a job of one's own stands, with its result
    READ_OTHERS = "read-others"  #: the same of everybody's jobs
    EVENTS = "events"  #: subscribe to what happens
    CANCEL = "cancel"  #: stop a job of one's own
    CANCEL_OTHERS = "cancel-others"  #: stop everybody's jobs
    MANAGE = "manage"  #: ask the broker or a worker about itself, and tell it what to do
    INVENTORY = "inventory"  #: see and change what the broker says to its workers
    FILES = "files"  #: fetch and put files
    REGISTER = "register"  #: offer services under a name, and publish events


class TargetClass(StrEnum):
    """The ways of saying whom a job is for."""

    ANY = "any"
    NAMES = "names"
    ALL = "all"
    LABELS = "labels"
    RESOURCES = "resources"


@value
class AccessRequest:
    """May somebody do this? An empty service asks whether there is any for which they may."""

    verb: Verb
    service: str = ""
    task: str = ""
    target: TargetClass = TargetClass.ANY
    #: The worker's name, or the names that a target has.
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = [self.verb.value, self.service or "anything"]
        words += [f"task {self.task}"] if self.task else []
        words += [f"for {self.target}"] if self.target is not TargetClass.ANY else []
        words += [f"as {', '.join(self.names)}"] if self.names else []
        return " ".join(words)


_CLASSES: Final[dict[type, TargetClass]] = {
    AnyWorker: TargetClass.ANY,
    Named: TargetClass.NAMES,
    AllWorkers: TargetClass.ALL,
    Labelled: TargetClass.LABELS,
    OnResource: TargetClass.RESOURCES,
}
_HOUSE: Final = {
    "mmi": Verb.MANAGE,
    "sid": Verb.INVENTORY,
    "fss": Verb.FILES,
    "filesharing": Verb.FILES,
}
#: Tasks of the management service that are another form of something else.
_OF_MANAGEMENT: Final = {"events": Verb.EVENTS, "publish": Verb.REGISTER}
#: Tasks that a worker of ours takes for management when it has none of that name itself.
_OF_WORKERS: Final = frozenset({"restart", "disconnect", "shutdown", "own"})


def class_of(target: Target) -> TargetClass:
    """Return the class of a target."""
    return _CLASSES[type(target)]


def canonical_service(service: str) -> str:
    """Return a service's name as rules have it: the broker's own may be said in capitals."""
    quiet = service.lower()
    return quiet if quiet.partition(".")[0] in _HOUSE else service


def verb_for(service: str, task: str) -> Verb:
    """Return what a request to a service is."""
    said = task.lower()
    if said.startswith("mmi.") or said in _OF_WORKERS:
        return Verb.MANAGE
    verb = _HOUSE.get(service.lower().partition(".")[0], Verb.SUBMIT)
    return _OF_MANAGEMENT.get(said, verb) if verb is Verb.MANAGE else verb


def access_request_for(service: str, task: str, target: Target) -> AccessRequest:
    """Return the question whether somebody may have this done."""
    verb = verb_for(service, task)
    if verb is Verb.EVENTS:
        # The answer has the events of every service.
        return AccessRequest(verb, EVERY_SERVICE)
    if verb is Verb.REGISTER:
        return AccessRequest(verb)
    return AccessRequest(
        verb, canonical_service(service), task, class_of(target), getattr(target, "names", ())
    )
