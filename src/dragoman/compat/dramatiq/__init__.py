"""Dramatiq's names on a Dragoman broker: change `import dramatiq` and programs run.

    import dragoman.compat.dramatiq as dramatiq

    @dramatiq.actor
    def count_words(url):
        ...

Then `python -m dragoman.compat.dramatiq module`. A queue is a service. A pipeline is a workflow of
child jobs. docs/howto-move-from-celery.md has what is there.
"""

from dragoman.compat.dramatiq.actors import Actor, Message, actor
from dragoman.compat.dramatiq.broker import DragomanBroker, get_broker, set_broker
from dragoman.compat.dramatiq.composition import group, pipeline
from dragoman.compat.dramatiq.errors import DramatiqError, Retry
from dragoman.compat.dramatiq.middleware import DramatiqMiddleware as Middleware
from dragoman.compat.hints import module_getattr

__all__ = [
    "Actor",
    "DragomanBroker",
    "DramatiqError",
    "Message",
    "Middleware",
    "Retry",
    "actor",
    "get_broker",
    "group",
    "pipeline",
    "set_broker",
]

_HINTS = {
    "GenericActor": "write a function with @actor",
    "Worker": "start `python -m dragoman.compat.dramatiq MODULE`, or broker.make_workers()",
    "rate_limits": "use limits of the broker: client.options(limit=Limit('key', concurrency=1))",
    "get_encoder": "arguments are JSON values and bytes",
    "set_encoder": "arguments are JSON values and bytes",
    "JSONEncoder": "arguments are JSON values and bytes",
    "PickleEncoder": "arguments are JSON values and bytes",
}
__getattr__ = module_getattr(__name__, _HINTS)
