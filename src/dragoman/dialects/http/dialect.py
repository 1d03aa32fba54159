"""The descriptor of HTTP."""

from dragoman.dialects.base import BodyCodec, BodyCodecs, BrokerSide
from dragoman.dialects.descriptor import Carrier, Dialect, Ids, ListenerSpec, PeerTools, WorkerSpec
from dragoman.dialects.peer_sides import ClientSide, WorkerSide


class HttpDialect(Dialect):
    """Our own HTTP API: requests, event streams and long polls."""

    name = "http"
    names_jobs = True
    carrier = Carrier.HTTP
    listeners = (ListenerSpec("http", "http", 8420, "HTTP clients and workers", scheme="http"),)
    acknowledges = True

    def body_codec(self) -> BodyCodec:
        """Make its body codec."""
        from dragoman.dialects.http.body_codec import HttpBodyCodec

        return HttpBodyCodec()

    def settings_type(self) -> type[object]:
        """Return the class of its settings."""
        from dragoman.dialects.http.settings import HttpSettings

        return HttpSettings

    def broker_sides(
        self, codecs: BodyCodecs, ids: Ids, settings: object = None
    ) -> tuple[BrokerSide, ...]:
        """Make the broker's end."""
        from dragoman.dialects.http.broker_side import HttpBrokerSide

        return (HttpBrokerSide(codecs=codecs),)

    def client_side(self, name: str, ids: Ids) -> ClientSide:
        """Make a client's end."""
        from dragoman.dialects.http.client_side import HttpClientSide

        return HttpClientSide(name)

    def worker_side(self, spec: WorkerSpec, tools: PeerTools) -> WorkerSide:
        """Make a worker's end."""
        from dragoman.dialects.http.worker_side import HttpWorkerSide

        return HttpWorkerSide(spec.name, spec.services, credit=spec.concurrency, labels=spec.labels)


DIALECT = HttpDialect()
