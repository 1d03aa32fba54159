"""Outages of the broker, with ZeroMQ workers that have no identity, as upstream's of DCP and MDP.

Their address is all that the broker knows them by, and it changes with every connection. So after a
restart of the broker a worker is a stranger: a job may run again. But every job succeeds, and no
worker's reply is taken for that of another.
"""

from copy import copy
from functools import partial
from random import Random
from typing import Final

from dragoman.testing.outage_simulation import OutageSimulation
from dragoman.testing.sim_connections import RouterAddresses, UnnamedDealer
from dragoman.testing.sim_dialects import SimDialect
from dragoman.testing.simulation import Outcome

#: Dialects whose upstream peers set no identity.
UNNAMED: Final = ("dcp", "mdp")


class UnnamedSimulation(OutageSimulation):
    """Workers that have no identity, and a broker with outages."""

    workers_each = 3

    def _create_dialect_peers(self, dialects: tuple[str, ...]) -> None:
        self._addresses = RouterAddresses(Random(self.world.seed + 3), lambda: self.server.life)
        super()._create_dialect_peers(dialects)

    def _dialect(self, name: str) -> SimDialect:
        dialect = copy(super()._dialect(name))
        dialect.connection = partial(UnnamedDealer, self._addresses)
        return dialect

    def _require_single_runs(self) -> None:
        """Require nothing: a worker that is not recognised may lose its job to another."""


def simulate_unnamed(seed: int, *, every: int = 1) -> Outcome:
    """Run one seed with peers that have no identity."""
    return UnnamedSimulation(seed, every=every, only=UNNAMED).run()
