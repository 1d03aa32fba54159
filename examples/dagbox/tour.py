"""A client that uses all three services once, and prints what they said."""

from typing import Any

import msgpack
from examples.dagbox.parts import options, write

from dragoman import Client


def ask(client: Client, service: str, request: object) -> Any:
    """Send one part and read the one answer; our client reads MessagePack by itself."""
    answer = client.call(service, raw=write(request), timeout=10)
    return msgpack.unpackb(answer) if isinstance(answer, bytes) else answer


def tour(url: str) -> list[tuple[str, Any]]:
    """Lock, write two values, read one with the other, unlock."""
    with Client(url) as client:
        told = [("locked", ask(client, "lock", {"key": "users", "lock": True}))]
        told += [("again", ask(client, "lock", {"key": "users", "lock": True}))]
        anna = ask(client, "datastore writer", {"bucket": "users", "data": "Anna"})
        note = ask(client, "datastore writer", {"bucket": "notes", "data": "likes maps"})
        told += [("written", anna)]
        related = {"note": {"bucket": "notes", "key": note}}
        request = {"bucket": "users", "key": anna, "relations": related}
        told += [("read", ask(client, "datastore reader", request))]
        told += [("missing", ask(client, "datastore reader", {"bucket": "users", "key": "?"}))]
        told += [("unlocked", ask(client, "lock", {"key": "users", "lock": False}))]
    return told


if __name__ == "__main__":
    for what, said in tour(options("Use DagBox's services.", with_folder=False).url):
        print(f"{what}: {said}")
