"""The broker object of Dramatiq programs: a connection to a Dragoman broker, and its actors."""

import atexit
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dragoman.compat.dramatiq.middleware import DramatiqMiddleware, WorkerHooks
from dragoman.compat.hints import broker_url
from dragoman.sdk.blocking import Client
from dragoman.sdk.task_results import TryAgain
from dragoman.sdk.worker import Worker

if TYPE_CHECKING:
    from dragoman.compat.dramatiq.actors import Actor


class DragomanBroker:
    """`broker = DragomanBroker(url=...)`, also under the names of Dramatiq's brokers."""

    def __init__(
        self,
        *,
        url: str | None = None,
        middleware: Iterable[DramatiqMiddleware] | None = None,
        host: str | None = None,
        **_: object,
    ) -> None:
        """Prepare. Without a URL of Dragoman, `DRAGOMAN_URL` or the local broker is used."""
        self.url = url or (f"amqp://{host}" if host else None)
        self.middleware = list(middleware or ())
        self.actors: dict[str, Actor] = {}
        self._lock = threading.Lock()
        self._client: Client | None = None

    def add_middleware(self, middleware: DramatiqMiddleware, **_: object) -> None:
        """Add middleware, after those that are there."""
        self.middleware.append(middleware)

    def declare_actor(self, actor: "Actor") -> None:
        """Add an actor."""
        self.actors[actor.actor_name] = actor

    def get_actor(self, name: str) -> "Actor":
        """Return an actor by its name. Raises KeyError."""
        return self.actors[name]

    def get_declared_queues(self) -> set[str]:
        """Return the queues of its actors."""
        return {actor.queue_name for actor in self.actors.values()}

    def connected(self) -> Client:
        """Return the client; it connects on first use."""
        with self._lock:
            if self._client is None:
                self._client = Client(broker_url(self.url))
                atexit.register(self.close)
            return self._client

    def close(self) -> None:
        """Disconnect. Messages that were sent are processed."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def make_workers(
        self, queues: Iterable[str] = (), threads: int = 8, **options: Any
    ) -> list[Worker]:
        """Return a Dragoman worker for each queue: all queues of the actors if none is named."""
        names = sorted(queues or self.get_declared_queues() or {"default"})
        return [self._worker(each, names, concurrency=threads, **options) for each in names]

    def _worker(self, queue: str, queues: list[str], **options: Any) -> Worker:
        from dragoman.compat.dramatiq.actors import message_of

        hooks = [WorkerHooks(self, message_of)] if self.middleware else []
        worker = Worker(broker_url(self.url), queue, middleware=hooks, **options)
        for actor in self.actors.values():
            if actor.queue_name == queue:
                retries = actor.retries()
                worker.task(
                    name=actor.actor_name,
                    retries=retries,
                    retry_on=(TryAgain, Exception) if retries.times else (),
                )(actor.function())
        worker.offer_workflows(*queues, *self.get_declared_queues())
        return worker


_current: list[DragomanBroker] = []


def get_broker() -> DragomanBroker:
    """Return the broker of this program; one for the local broker, if none was set."""
    if not _current:
        _current.append(DragomanBroker())
    return _current[-1]


def set_broker(broker: DragomanBroker) -> None:
    """Set the broker of this program, before actors are declared."""
    _current.append(broker)
