"""An S3-compatible server (moto's) as a process of its own, for the tests of object storage."""

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

BUCKET = "ledger"


@contextmanager
def object_store(folder: Path) -> Iterator[dict[str, str]]:
    """Run a server with one empty bucket; yield the environment of its clients, but the secret."""
    said = folder / "object-store.log"
    with said.open("wb") as log:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{_port(server, said)}"
        new = urllib.request.Request(f"{url}/{BUCKET}", method="PUT")
        with urllib.request.urlopen(new) as answer:
            assert answer.status == 200
        yield {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_REGION": "us-east-1",
            # Neither a person's own settings nor a machine's role.
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
    finally:
        server.kill()
        server.wait()


def _port(server: "subprocess.Popen[bytes]", said: Path) -> int:
    """Wait until the server has printed its port."""
    while server.poll() is None:
        if found := re.search(r"Running on http://127\.0\.0\.1:(\d+)", said.read_text()):
            return int(found[1])
        with suppress(subprocess.TimeoutExpired):
            server.wait(0.05)
    raise AssertionError(said.read_text())
