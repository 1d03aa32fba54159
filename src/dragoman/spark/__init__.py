"""Spark as a client and as a worker of the broker.

    from dragoman.spark import call_service

    answered = call_service(orders, "nfp://broker:5555", "risk", "score", key="order_id")

`dragoman spark-worker` runs Spark as a worker. This package uses the SDK only, no dialect and no
socket. Executors need this package installed, as the driver does.
"""

from typing import TYPE_CHECKING, Any

from dragoman.extras import explain_missing

if TYPE_CHECKING:
    from dragoman.spark.call import call_service
    from dragoman.spark.sink import foreach_service

__all__ = ["call_service", "foreach_service"]

_MODULES = {"call_service": "call", "foreach_service": "sink"}


def __getattr__(name: str) -> Any:
    """Import Spark on first use: executors and the command line do not need all of it."""
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module 'dragoman.spark' has no attribute {name!r}")
    try:
        return getattr(import_module(f"dragoman.spark.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        text = explain_missing(error, "dragoman.spark", "spark")
        raise ModuleNotFoundError(text, name=error.name) from None
