"""Celery's exceptions that programs catch."""


class CeleryError(Exception):
    """Base class."""


class TimeoutError(CeleryError):
    """The result did not come in time. The task continues."""


class TaskRevokedError(CeleryError):
    """The task was revoked, or it expired."""


class MaxRetriesExceededError(CeleryError):
    """The task was retried as often as it may."""


class Ignore(CeleryError):
    """Raise inside a task: here the task succeeds without a result."""


class Reject(CeleryError):
    """Raise inside a task: here the task fails, and is not tried again."""


class CeleryRetry(CeleryError):
    """Raised by `task.retry`. The broker runs the task again."""


Retry = CeleryRetry
