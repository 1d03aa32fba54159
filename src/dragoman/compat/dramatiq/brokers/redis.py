"""`RedisBroker`: a Dragoman broker under Dramatiq's name."""

from dragoman.compat.dramatiq.broker import DragomanBroker as RedisBroker

__all__ = ["RedisBroker"]
