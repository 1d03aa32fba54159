"""Declares the limits of services and tasks that the settings set. The core records changes."""

from collections.abc import Iterator, Mapping

from dragoman.core.events import ServiceLimited
from dragoman.core.limit_state import rule_name
from dragoman.model.limit import NO_LIMIT, Limit
from dragoman.model.names import ServiceName
from dragoman.server.loop import Loop
from dragoman.server.service_settings import ServiceSection


def declare_limits(loop: Loop, services: Mapping[str, ServiceSection]) -> None:
    """Declare the limits of the settings; remove those that are no longer there."""
    wanted = dict(_wanted(services))
    known = loop.broker.state.store.queue.limits.rules
    for service, task in [place for place in map(_place, known) if place not in wanted]:
        loop.submit(ServiceLimited(ServiceName(service), NO_LIMIT, task))
    for (service, task), limit in wanted.items():
        if known.get(rule_name(service, task)) != limit:
            loop.submit(ServiceLimited(ServiceName(service), limit, task))


def _wanted(services: Mapping[str, ServiceSection]) -> Iterator[tuple[tuple[str, str], Limit]]:
    for service, section in services.items():
        sections = {"": section, **section.tasks}
        for task, each in sections.items():
            if not each.limit.is_none:
                yield (service, task), each.limit


def _place(name: str) -> tuple[str, str]:
    """Return the service and task of a rule's name. Names of services have no spaces."""
    _, _, place = name.partition(" ")
    service, _, task = place.partition(" ")
    return service, task
