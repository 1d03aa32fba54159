"""Terms per service: the settings of a service override the terms of the dialect."""

from collections.abc import Mapping

from dragoman.core.events import JobSubmitted
from dragoman.model.terms import Terms
from dragoman.server.settings import ServiceSection


class ServiceTerms:
    """Applies the settings' service sections to submissions."""

    def __init__(self, services: Mapping[str, ServiceSection]) -> None:
        self._services = services
        #: A cache: dialects use the same few terms.
        self._made: dict[tuple[str, Terms], Terms] = {}

    def __bool__(self) -> bool:
        return bool(self._services)

    def apply(self, event: JobSubmitted) -> JobSubmitted:
        """Return a submission with the terms of its service."""
        # The settings of a service also apply to its versions (`math@1.2.0`).
        name = event.service.partition("@")[0]
        section = self._services.get(event.service) or self._services.get(name)
        if section is None:
            return event
        key = (event.service, event.terms)
        terms = self._made.get(key)
        if terms is None:
            if len(self._made) > 10_000:
                self._made.clear()
            terms = self._made[key] = section.apply(event.terms)
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
