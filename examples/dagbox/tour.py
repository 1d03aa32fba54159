"""A client that calls all three services and prints their answers."""

from typing import Any

import msgpack
from examples.dagbox.parts import options, write

from dragoman import Client


def ask(client: Client, service: str, request: object) -> Any:
    """Send one part; return the answer. The client decodes MessagePack if it can."""
    answer = client.options(timeout=10).call_raw(service, write(request))
    return msgpack.unpackb(answer) if isinstance(answer, bytes) else answer


def tour(url: str) -> list[tuple[str, Any]]:
    """Lock, write two values, read one with the other, unlock."""
    with Client(url) as client:
        steps = [("locked", ask(client, "lock", {"key": "users", "lock": True}))]
        steps += [("again", ask(client, "lock", {"key": "users", "lock": True}))]
        anna = ask(client, "datastore writer", {"bucket": "users", "data": "Anna"})
        note = ask(client, "datastore writer", {"bucket": "notes", "data": "likes maps"})
        steps += [("written", anna)]
        related = {"note": {"bucket": "notes", "key": note}}
        request = {"bucket": "users", "key": anna, "relations": related}
        steps += [("read", ask(client, "datastore reader", request))]
        steps += [("missing", ask(client, "datastore reader", {"bucket": "users", "key": "?"}))]
        steps += [("unlocked", ask(client, "lock", {"key": "users", "lock": False}))]
    return steps


if __name__ == "__main__":
    for what, answer in tour(options("Use DagBox's services.", with_folder=False).url):
        print(f"{what}: {answer}")
