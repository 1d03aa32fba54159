"""Limits of the core, with their defaults. Every queue and every cache has one."""

from dragoman.model.value import value


@value
class Limits:
    """Limits in counts, bytes and seconds that no peer can exceed."""

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
    #: How often a job may be forwarded from service to service.
    hops: int = 16
    #: Clients remembered for `show_clients`; the least recently seen is forgotten.
    clients: int = 10_000
    #: How long a recovered assignment waits for its worker to come back.
    recovery_grace: float = 15.0
    #: The longest wait between two attempts of a job.
    longest_backoff: float = 60.0
    #: How long the broker waits before it offers a job again to a worker that handed it back.
    refusal_pause: float = 1.0
    #: Larger progress reports are sent to the client, but recorded without their body.
    progress_bytes: int = 64 * 1024
    #: How long jobs for a moving resource wait for its owners to confirm.
    move_grace: float = 5.0
    #: How long the broker collects joins and leaves before it records and announces owners.
    move_pause: float = 0.2
