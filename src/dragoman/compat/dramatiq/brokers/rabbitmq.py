"""`RabbitmqBroker`: a Dragoman broker under Dramatiq's name."""

from dragoman.compat.dramatiq.broker import DragomanBroker as RabbitmqBroker

__all__ = ["RabbitmqBroker"]
