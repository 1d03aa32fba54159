"""Limits of the core, with their defaults. Every queue and every cache has one."""

from dragoman.model.setting import setting
from dragoman.model.value import value


@value
class Limits:
    """Limits in counts, bytes and seconds that no peer can exceed."""

    queued_jobs: int = setting(
        default=100_000, ge=1, help="Jobs that may wait in one service's queue."
    )
    queued_bytes: int = setting(
        default=512 * 1024 * 1024,
        ge=1,
        help="Bytes of request bodies that may wait in one service's queue.",
    )
    queued_memory: int = setting(
        default=0,
        ge=0,
        help="Bytes of memory for waiting request bodies, over all services; further bodies stay"
        " on disk until they are dispatched. 0: an eighth of the memory that the broker may use.",
    )
    retention: float = setting(
        default=3600.0,
        ge=0,
        help="Seconds that a finished job stays in memory (the ledger has it longer).",
    )
    finished_jobs: int = setting(
        default=100_000, ge=0, help="Most finished jobs kept in memory, whatever their age."
    )
    result_bytes: int = setting(
        default=64 * 1024 * 1024,
        ge=0,
        help="Bytes of results kept in memory; older ones are read from the ledger.",
    )
    #: Jobs one above the other, from parent to child.
    nesting: int = 32
    hops: int = setting(
        default=16, ge=0, help="How often a job may be forwarded from service to service."
    )
    #: Clients remembered for `show_clients`; the least recently seen is forgotten.
    clients: int = 10_000
    recovery_grace: float = setting(
        default=15.0,
        ge=0,
        help="Seconds that a recovered assignment waits for its worker to come back.",
    )
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
