"""How much a worker has, and how much a job needs."""

from typing import Final

from dragoman.model.value import value


@value
class Capacity:
    """Amounts of each kind. CPU in cores, memory and disk in bytes, GPUs and slots counted."""

    cpu: float = 0.0
    memory: int = 0
    disk: int = 0
    gpu: int = 0
    slots: int = 0

    def holds(self, need: "Capacity") -> bool:
        """Tell whether `need` fits inside."""
        return (
            self.cpu >= need.cpu
            and self.memory >= need.memory
            and self.disk >= need.disk
            and self.gpu >= need.gpu
            and self.slots >= need.slots
        )

    def minus(self, other: "Capacity") -> "Capacity":
        """Return what is left after `other` is taken."""
        # Rounded, or a worker with 0.3 cores would hold only two jobs of 0.1.
        return Capacity(
            round(self.cpu - other.cpu, 9),
            self.memory - other.memory,
            self.disk - other.disk,
            self.gpu - other.gpu,
            self.slots - other.slots,
        )

    def plus(self, other: "Capacity") -> "Capacity":
        """Return both together."""
        return self.minus(
            Capacity(-other.cpu, -other.memory, -other.disk, -other.gpu, -other.slots)
        )


NOTHING: Final = Capacity()
