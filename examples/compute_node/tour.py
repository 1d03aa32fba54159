"""Compute nodes for clients of other dialects: python -m examples.compute_node.tour NCL NFP."""

import sys
from typing import Any

from dragoman import Client, Worker


def node(ncl: str, name: str, zone: str) -> Worker:
    """Make a compute node. Its engine is the service; a label names its zone."""
    worker = Worker(ncl, service="render", name=name, labels={"zone": zone})

    @worker.task
    def frame(number: int, scene: str) -> dict[str, Any]:
        return {"frame": number, "scene": scene, "rendered in": zone}

    return worker


def tour(ncl: str, nfp: str) -> list[dict[str, Any]]:
    """Render frames on any node, then one on a node with a label. The client needs no NATS."""
    with node(ncl, "n-eu", "eu"), node(ncl, "n-us", "us"), Client(nfp) as client:
        frames = [{"number": number, "scene": "harbour"} for number in range(3)]
        found = list(client.options(timeout=60).map("render", "frame", frames))
        in_us = client.options(target="labels:zone=us", timeout=60)
        found.append(in_us.call("render", "frame", number=3, scene="harbour"))
    return found


if __name__ == "__main__":
    for each in tour(*sys.argv[1:3]):
        print(each)
