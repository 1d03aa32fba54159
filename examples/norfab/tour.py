"""A NorFab fabric on Dragoman: python tour.py [INVENTORY] [HTTP]."""

import json
import sys
import time
from pathlib import Path
from typing import Any

from norfab.core.nfapi import NorFab

from dragoman import Client

INVENTORY = Path(__file__).with_name("inventory.yaml")


WORKERS = 2
PATIENCE = 40.0


def ask_all(client: Any) -> dict[str, Any]:
    """Ask all workers, again until each has joined: they start beside this program."""
    end = time.monotonic() + PATIENCE
    while True:
        found = client.run_job("switches", "version", workers="all", timeout=5) or {}
        if len(found) == WORKERS:
            return dict(found)
        if time.monotonic() > end:
            words = f"{len(found)} of {WORKERS} workers answer; are their keys approved?"
            raise SystemExit(words)
        time.sleep(0.5)


def tour(inventory: Path, http: str) -> dict[str, Any]:
    """Start NorFab's workers; call them with NorFab's client and with an HTTP client."""
    fabric = NorFab(inventory=str(inventory))
    fabric.start()
    try:
        client = fabric.make_client(name="tour")
        all_workers = ask_all(client)
        one = client.run_job("switches", "version", kwargs={"vendor": "other"}, workers="any")
        with Client(http) as http_client:
            over_http = http_client.options(timeout=30).call("switches", "version", vendor="http")
    finally:
        fabric.destroy()
    results = {name: found["result"] for name, found in all_workers.items()}
    (any_one,) = (found["result"] for found in one.values())
    return {"everybody": results, "any": any_one, "over http": over_http}


if __name__ == "__main__":
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else INVENTORY
    print(json.dumps(tour(where, *(sys.argv[2:] or ["http://127.0.0.1:8420"])), indent=2))
