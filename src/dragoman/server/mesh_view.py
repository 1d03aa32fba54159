"""What a broker tells its neighbours of itself: the services it offers, and the jobs it has.

Offers follow the registry. A service that only another broker offers is offered on, with the way
there; never to a broker on that way.
"""

from collections.abc import Callable, Iterable
from typing import Final

from dragoman.core.registry import RegisteredWorker
from dragoman.core.state import BrokerState
from dragoman.core.why import why
from dragoman.dialects.mesh.wire import Offer, is_word
from dragoman.model.names import EVERY_SERVICE, JobId, PeerId

#: The slots of a worker without a limit of its own.
_UNLIMITED: Final = 1000


class RegistryView:
    """Reads the live broker for its neighbours."""

    def __init__(self, name: str, state: Callable[[], BrokerState]) -> None:
        self._name = name
        self._state = state

    def offers(self, to: str, gives: Callable[[str], bool]) -> tuple[Offer, ...]:
        """Return the services that a neighbour may use; none while the broker drains."""
        state = self._state()
        if state.is_draining:
            return ()
        left_out = {EVERY_SERVICE, *state.store.queue.paused}
        found = (
            self._offer(service, pool.members.values(), to)
            for service, pool in sorted(state.registry.pools.items())
            if service not in left_out and gives(service) and is_word(service, 255)
        )
        return tuple(offer for offer in found if offer is not None)

    def _offer(self, service: str, workers: Iterable[RegisteredWorker], to: str) -> Offer | None:
        able = [w for w in workers if not (w.is_builtin or w.is_draining or w.is_drained)]
        own = [w for w in able if not w.route]
        if own:
            return Offer(service, sum(map(_slots, own)), [self._name])
        far = [w for w in able if to not in w.route]
        if not far:
            return None
        best = min(far, key=lambda worker: (len(worker.route), worker.route))
        return Offer(service, _slots(best), [self._name, *best.route])

    def open_jobs(self, client: PeerId) -> list[JobId]:
        """Return the open jobs of a client."""
        jobs = self._state().store.jobs.values()
        return [job.id for job in jobs if job.client == client and not job.is_final]

    def is_own(self, service: str) -> bool:
        """Tell whether the broker itself offers a service."""
        pool = self._state().registry.pools.get(service)  # type: ignore[call-overload]
        return pool is not None and any(w.is_builtin for w in pool.members.values())

    def why(self, job: str) -> tuple[str, str]:
        """Return why a job is in its state: the reason, and an explanation."""
        found = why(self._state(), JobId(job))
        return found.reason.value, found.words


def _slots(worker: RegisteredWorker) -> int:
    """Return how many jobs a worker holds at a time."""
    if worker.credit is None:
        return _UNLIMITED
    return worker.credit if worker.credit_returns else worker.credit + len(worker.held)
