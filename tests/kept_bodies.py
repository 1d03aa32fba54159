"""The bodies of appended records, for brokers in memory: the core keeps none of a waiting job."""

from dataclasses import replace

from dragoman.core.effects import Append, Effect, SendWork
from dragoman.model.body import EMPTY, Body


class KeptBodies:
    """Adds bodies to work, as the server's engine does from the ledger."""

    def __init__(self) -> None:
        self._bodies: dict[int, Body | None] = {}

    def __getitem__(self, seq: int) -> Body:
        return self._bodies[seq] or EMPTY

    def get(self, seq: int) -> Body | None:
        return self._bodies.get(seq)

    def keep(self, effect: Append) -> None:
        self._bodies[effect.record.seq] = effect.body

    def fill(self, effect: Effect) -> Effect:
        """Return the effect with its body, if it names the record that has it."""
        if isinstance(effect, SendWork) and effect.body_seq:
            return replace(effect, body=self[effect.body_seq], body_seq=0)
        return effect
