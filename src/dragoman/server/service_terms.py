"""Terms per service: the settings of a service override the terms of the dialect."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from dragoman.core.events import JobSubmitted
from dragoman.model.names import name_of
from dragoman.model.terms import Terms
from dragoman.server.service_settings import ServiceSection


class ServiceTerms:
    """Applies the settings' service sections to submissions.

    Calls of `relaxed` services do not wait for the disk: people need management most when the disk
    fails.
    """

    def __init__(
        self,
        services: Mapping[str, ServiceSection],
        relaxed: Collection[str] = (),
        weights: Mapping[str, int] | None = None,
    ) -> None:
        self._services = services
        #: By principal, or by the name of a client.
        self._weights = weights or {}
        self._relaxed = frozenset(relaxed)
        #: A cache: dialects use the same few terms.
        self._made: dict[tuple[str, str, Terms], Terms] = {}

    def __bool__(self) -> bool:
        return bool(self._services or self._relaxed or self._weights)

    def apply(self, event: JobSubmitted) -> JobSubmitted:
        """Return a submission with the weight of its client and the terms of its service."""
        if self._weights:
            by_name = self._weights.get(name_of(event.client), 1)
            weight = self._weights.get(event.principal, by_name)
            if weight != 1:
                event = _with_terms(event, replace(event.terms, weight=weight))
        # The settings of a service also apply to its versions (`math@1.2.0`).
        name = event.service.partition("@")[0]
        section = self._services.get(event.service) or self._services.get(name)
        if section is None:
            return self._relax(event) if event.service in self._relaxed else event
        # Only tasks with settings of their own make a difference: clients may invent others.
        task = event.task if event.task in section.tasks else ""
        parent = event.terms.parent
        if parent is None:
            return _with_terms(event, self._terms(section, event.service, task, event.terms))
        # Each child job has a parent and position of its own: without them, few terms differ.
        alone = self._terms(section, event.service, task, replace(event.terms, parent=None))
        return _with_terms(event, replace(alone, parent=parent))

    def _terms(self, section: ServiceSection, service: str, task: str, given: Terms) -> Terms:
        key = (service, task, given)
        terms = self._made.get(key)
        if terms is None:
            if len(self._made) > 10_000:
                self._made.clear()
            terms = self._made[key] = _within(section.apply(given, task), given)
        return terms

    def _relax(self, event: JobSubmitted) -> JobSubmitted:
        return _with_terms(event, replace(event.terms, strict=False))


def _within(terms: Terms, given: Terms) -> Terms:
    """Return terms that give a job of another broker no more time than it has left."""
    if not given.path or given.timeout is None:
        return terms
    own = terms.timeout
    return replace(terms, timeout=given.timeout if own is None else min(own, given.timeout))


def _with_terms(event: JobSubmitted, terms: Terms) -> JobSubmitted:
    return JobSubmitted(
        event.job,
        event.client,
        event.service,
        event.body,
        event.target,
        terms,
        event.task,
        event.key,
        event.principal,
    )
