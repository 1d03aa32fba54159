"""The tasks of Celery's first two tutorials, with one import changed."""

from dragoman.compat.celery import Celery

app = Celery("tasks", backend="rpc://", broker="pyamqp://guest@localhost//")


@app.task
def add(x, y):  # type: ignore[no-untyped-def]
    return x + y


@app.task
def mul(x, y):  # type: ignore[no-untyped-def]
    return x * y


@app.task
def xsum(numbers):  # type: ignore[no-untyped-def]
    return sum(numbers)
