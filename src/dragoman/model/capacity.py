"""Capacity: how much a worker has, and how much a job needs."""

from typing import Final

from dragoman.model.value import value


@value
class Capacity:
    """One amount per kind: CPU in cores, memory and disk in bytes, GPUs and slots as counts."""

    cpu: float = 0.0
    memory: int = 0
    disk: int = 0
    gpu: int = 0
    slots: int = 0

    def holds(self, need: "Capacity") -> bool:
        """Tell whether `need` fits into this capacity."""
        return (
            self.cpu >= need.cpu
            and self.memory >= need.memory
            and self.disk >= need.disk
            and self.gpu >= need.gpu
            and self.slots >= need.slots
        )

    def minus(self, other: "Capacity") -> "Capacity":
        """Return this capacity less `other`."""
        # Rounded: otherwise a worker with 0.3 cores would hold only two jobs of 0.1.
        return Capacity(
            round(self.cpu - other.cpu, 9),
            self.memory - other.memory,
            self.disk - other.disk,
            self.gpu - other.gpu,
            self.slots - other.slots,
        )

    def plus(self, other: "Capacity") -> "Capacity":
        """Return this capacity plus `other`."""
        return self.minus(
            Capacity(-other.cpu, -other.memory, -other.disk, -other.gpu, -other.slots)
        )


NOTHING: Final = Capacity()
