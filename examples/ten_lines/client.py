"""A client in ten lines. Run it with the broker's URL: python -m examples.ten_lines.client URL."""

import sys

from dragoman import Client

with Client(sys.argv[1]) as client:
    print(client.options(timeout=30).call("math", "add", x=2, y=3))
