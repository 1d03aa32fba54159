"""Draws a real trace across two dialects: `python -m scripts.trace_picture` writes an SVG.

An NFP client calls a task of a memo01 worker, which fails once. The spans of the client and of the
worker come from the OpenTelemetry SDK in this process. Those of the broker come over OTLP, to a
receiver on loopback.
"""

import gzip
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from time import sleep
from typing import Any

from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from scripts.pictures import DISK, FOLDER, PLAIN, PURE, Picture

from dragoman import Client, Worker
from dragoman.model.value import value
from dragoman.testing.harness import LocalBroker

WIDTH, LEFT, ROW = 900, 300, 34


@value
class DrawnSpan:
    """One bar: who made the span, its name, and its time in nanoseconds."""

    maker: str
    name: str
    start: int
    end: int


class Receiver(BaseHTTPRequestHandler):
    """Takes OTLP as a collector does."""

    found: list[Any] = []

    def do_POST(self) -> None:
        """Keep the spans of a request."""
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            raw = gzip.decompress(raw)
        for resource in ExportTraceServiceRequest.FromString(raw).resource_spans:
            for scope in resource.scope_spans:
                self.found.extend(scope.spans)
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@contextmanager
def collector() -> Iterator[str]:
    """Run a receiver; yield its URL."""
    Receiver.found = []
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/traces"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def run(own: InMemorySpanExporter) -> list[DrawnSpan]:
    """Call once across the bridge; return all spans by their start."""
    attempts: list[int] = []

    def resize(width: int) -> int:
        attempts.append(width)
        sleep(0.08)
        if len(attempts) == 1:
            raise RuntimeError("the camera is busy")
        return width * 2

    with collector() as url:
        with LocalBroker("nfp", "memo", traces={"endpoint": url}) as broker:
            worker = Worker(broker.url("memo"), service="images", own_process_beats=False)
            worker.task(resize)
            with worker, Client(broker.url("nfp")) as client:
                tracer = trace.get_tracer("shop")
                with tracer.start_as_current_span("order 17"):
                    patient = client.options(retries=2, timeout=30)
                    assert patient.call("images", "resize", width=21) == 42
        found = [
            DrawnSpan("broker", s.name, s.start_time_unix_nano, s.end_time_unix_nano)
            for s in Receiver.found
        ]
    makers = {"order 17": "client (nfp)"}
    for span in own.get_finished_spans():
        assert span.start_time is not None
        assert span.end_time is not None
        maker = makers.get(span.name, "worker (memo)")
        found.append(DrawnSpan(maker, span.name, span.start_time, span.end_time))
    return sorted(found, key=lambda each: (each.start, -each.end))


def draw(spans: list[DrawnSpan]) -> str:
    """Draw one bar for each span."""
    looks = {"client (nfp)": PLAIN, "broker": DISK, "worker (memo)": PURE}
    picture = Picture("One trace across two dialects", WIDTH, 60 + ROW * len(spans))
    first, last = min(s.start for s in spans), max(s.end for s in spans)
    scale = (WIDTH - LEFT - 90) / (last - first)
    picture.text(20, 30, "One trace: NFP client, broker, memo01 worker", bold=True, anchor="start")
    for n, span in enumerate(spans):
        y = 48 + n * ROW
        x, w = LEFT + (span.start - first) * scale, max(3.0, (span.end - span.start) * scale)
        picture.text(20, y + 16, f"{span.maker}: {span.name}", anchor="start")
        picture.box(round(x), y, round(w), 22, look=looks[span.maker])
        took = f"{(span.end - span.start) / 1e6:.0f} ms"
        picture.text(x + w + 6, y + 16, took, anchor="start")
    return picture.svg()


def main() -> int:
    """Write the picture."""
    own = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(own))
    trace.set_tracer_provider(provider)
    spans = run(own)
    path = FOLDER / "trace.svg"
    path.write_text(draw(spans))
    print(f"{path.name}: {len(spans)} spans")
    return 0


if __name__ == "__main__":
    sys.exit(main())
