"""Dramatiq's errors that programs raise and catch."""


class DramatiqError(Exception):
    """Base class."""


class DramatiqRetry(DramatiqError):
    """Raise inside an actor: it runs again after `delay` milliseconds."""

    def __init__(self, message: str = "", delay: int | None = None) -> None:
        super().__init__(message)
        self.delay = delay


class ResultError(DramatiqError):
    """There is no result to return."""


class ResultMissing(ResultError):
    """The actor has not ended yet."""


class ResultTimeout(ResultError):
    """The result did not come in time."""


class ResultFailure(ResultError):
    """The actor failed; the text has its exception."""


Retry = DramatiqRetry
