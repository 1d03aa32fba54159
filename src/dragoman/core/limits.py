"""Bounds of the core, with their defaults. Every queue and every memory has one."""

from dragoman.model.value import value


@value
class Limits:
    """Counts, bytes and seconds that no peer can exceed."""

    #: Jobs that may wait in one service's queue.
    queued_jobs: int = 100_000
    #: Bytes of request bodies that may wait in one service's queue.
    queued_bytes: int = 512 * 1024 * 1024
    #: How long a finished job stays readable from memory (the ledger has it longer).
    retention: float = 3600.0
    #: Finished jobs kept in memory at most, whatever their age.
    finished_jobs: int = 100_000
    #: Bytes of results kept in memory; older ones are read from the ledger.
    result_bytes: int = 64 * 1024 * 1024
    #: How often a job may be handed over from service to service.
    hops: int = 16
    #: Clients remembered for `show_clients`; the least recently seen is forgotten.
    clients: int = 10_000
    #: How long a recovered assignment waits for its worker to come back.
    recovery_grace: float = 15.0
    #: The longest wait between two attempts of a job.
    longest_backoff: float = 60.0
    #: How long a worker that handed a job back is not offered it again.
    refusal_pause: float = 1.0
    #: Reports larger than this are passed on, and recorded without their body.
    progress_bytes: int = 64 * 1024
    #: How long jobs for a resource are held while its owners are told that it moves.
    move_grace: float = 5.0
    #: How long to wait for more comings and goings before the owners are put on record and told.
    move_pause: float = 0.2
