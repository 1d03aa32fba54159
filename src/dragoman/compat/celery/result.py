"""Celery's `result` module."""

from dragoman.compat.celery.results import AsyncResult, EagerResult, GroupResult

__all__ = ["AsyncResult", "EagerResult", "GroupResult"]
