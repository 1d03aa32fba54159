"""The HTTP API does what its description says: Schemathesis asks a real broker."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.interop.conftest import StartBroker

from dragoman.web.openapi import describe

pytestmark = pytest.mark.interop

SCHEMATHESIS = str(Path(sys.executable).with_name("schemathesis"))
HOOKS = Path(__file__).with_name("openapi_hooks.py")
#: Waits end soon, so that calls of services without a worker do not take the whole minute.
SETTINGS = "[http]\ntimeout = 0.2\npatience = 0.2\nlong_poll = 0.2\n"
STREAMS = {
    path
    for path, methods in describe()["paths"].items()
    for operation in methods.values()
    if "text/event-stream" in operation["responses"].get("200", {}).get("content", {})
}
#: Jobs that fail have a status of their own; the check `no_internal_error` looks at its reason.
CONFIGURATION = """
[phases.coverage]
unexpected-methods = ["PUT"]
generate-duplicate-query-parameters = false
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", 502, 503, 504]
[[operations]]
include-path = ["/v1/jobs/{{job}}", "/v1/jobs/{{job}}/result", "/v1/jobs/{{job}}/records",
  "/v1/jobs/{{job}}/why"]
parameters = {{ "path.job" = "{job}" }}
[[operations]]
include-path = ["/v1/workers/{{session}}/poll", "/v1/workers/{{session}}/events",
  "/v1/workers/{{session}}/jobs/{{job}}/{{attempt}}"]
parameters = {{ "path.session" = "{session}" }}
[[operations]]
include-path = "/dashboard/{{name}}"
parameters = {{ "path.name" = "app.js" }}
"""


@contextmanager
def asked(url: str, method: str, path: str, body: object = None) -> Iterator[HTTPResponse]:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=20)
    content = None if body is None else json.dumps(body).encode()
    try:
        connection.request(method, path, content, {"Content-Type": "application/json"})
        with connection.getresponse() as response:
            yield response
    finally:
        connection.close()


def made(url: str, path: str, body: object, member: str) -> str:
    with asked(url, "POST", path, body) as response:
        return str(json.load(response)[member])


@pytest.mark.timeout(180)
def test_every_operation_does_what_its_description_says(
    broker: StartBroker, tmp_path: Path
) -> None:
    url = broker({"http": "127.0.0.1:0"}, SETTINGS).endpoints["http"]
    job = made(url, "/v1/jobs", {"service": "nobody"}, "job")
    session = made(url, "/v1/workers", {"services": ["reached"]}, "session")
    settings = tmp_path / "schemathesis.toml"
    settings.write_text(CONFIGURATION.format(job=job, session=session))
    command = [SCHEMATHESIS, "--config-file", str(settings), "run", f"{url}/openapi.json"]
    command += ["--phases", "coverage,fuzzing", "--max-examples", "3", "--seed", "7"]
    command += ["--continue-on-failure", "--no-shrink", "--request-timeout", "10"]
    command += ["--no-color", "--warnings", "off"]
    for path in STREAMS:
        command += ["--exclude-path", path]
    env = {**os.environ, "SCHEMATHESIS_HOOKS": str(HOOKS)}
    found = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path)
    assert found.returncode == 0, found.stdout[-12_000:] + found.stderr[-4000:]


GOOD = ("/v1/events?topic=a.*", "/v1/events?after=0", "/v1/inbox", "/v1/overview/live")
BAD = ("/v1/events?after=-2", "/v1/events?after=0.5", "/v1/events?topic=" + "x" * 257)


def test_streams_open_as_described(broker: StartBroker) -> None:
    assert {path.partition("?")[0] for path in GOOD} == STREAMS
    url = broker({"http": "127.0.0.1:0"}).endpoints["http"]
    for path in GOOD:
        with asked(url, "GET", path) as response:
            assert (response.status, response.read(8)) == (200, b": open\n\n")
            assert response.headers["Content-Type"].startswith("text/event-stream")
    for path in BAD:
        with asked(url, "GET", path) as response:
            assert response.status == 400, path
