"""Dramatiq's results: the broker keeps them, so the middleware has nothing to do."""

from dragoman.compat.dramatiq.errors import ResultError, ResultFailure, ResultMissing, ResultTimeout
from dragoman.compat.dramatiq.middleware import Results

__all__ = ["ResultError", "ResultFailure", "ResultMissing", "ResultTimeout", "Results"]
