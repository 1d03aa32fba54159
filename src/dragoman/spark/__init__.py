"""Spark as a client and as a worker of the fabric.

    from dragoman.spark import call_service

    answered = call_service(orders, "nfp://broker:5555", "risk", "score", key="order_id")

As a worker: `dragoman spark-worker`. Nothing here knows a dialect or a socket: everything goes
through the SDK. Executors need this package installed, as the driver does.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.spark.call import call_service
    from dragoman.spark.sink import foreach_service

__all__ = ["call_service", "foreach_service"]

_HOMES = {"call_service": "call", "foreach_service": "sink"}


def __getattr__(name: str) -> Any:
    """Load Spark when somebody asks for something: executors and the command line need less."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'dragoman.spark' has no attribute {name!r}")
    return getattr(import_module(f"dragoman.spark.{_HOMES[name]}"), name)
