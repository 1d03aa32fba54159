"""What can be set about the HTTP link."""

from dragoman.model.value import value


@value
class HttpSettings:
    """All spans are in seconds."""

    #: A worker's polls and reports are its beats; it should be heard this often.
    beat_every: float = 5.0
    #: So many silent intervals make it lost.
    missed_allowed: int = 6
    #: The longest silence a worker may ask for while it holds a job.
    longest_lease: float = 3600.0
    #: How long a job may take when its request does not say.
    timeout: float = 600.0
    #: How long a job waits while nobody at all can serve it.
    patience: float = 60.0
    #: Finished reports of workers remembered, so that a second post is recognised.
    remembered: int = 10_000
