"""Events of a broker on a web page: python -m examples.events.serve [BROKER] [PORT].

The broker's HTTP listener refuses pages of other origins. So this program serves the page and
forwards the stream of events.
"""

import sys
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import Request, urlopen

PAGE = Path(__file__).with_name("page.html")
TOPICS = "topic=broker.submitted&topic=broker.dispatched&topic=broker.ended"


def make_server(broker: str, port: int = 0) -> ThreadingHTTPServer:
    """Make the server; port 0 picks a free one."""

    class Handler(BaseHTTPRequestHandler):
        """Serves two paths: the page and its events."""

        def do_GET(self) -> None:
            if self.path == "/":
                self._begin("text/html; charset=utf-8")
                self.wfile.write(PAGE.read_bytes())
            elif self.path == "/events":
                self._forward()
            else:
                self.send_error(404)

        def _forward(self) -> None:
            """Forward the broker's stream, from the browser's last event on."""
            last = self.headers.get("Last-Event-ID", "")
            headers = {"Last-Event-ID": last} if last else {}
            request = Request(f"{broker}/v1/events?{TOPICS}", headers=headers)
            with urlopen(request) as stream, suppress(OSError):
                self._begin("text/event-stream")
                while line := stream.readline():
                    self.wfile.write(line)
                    self.wfile.flush()

        def _begin(self, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Cache-Control", "no-store")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    return server


if __name__ == "__main__":
    where = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8420"
    made = make_server(where, int(sys.argv[2]) if len(sys.argv) > 2 else 8421)
    print(f"http://127.0.0.1:{made.server_address[1]}/")
    made.serve_forever()
