"""The NATS permissions of a compute node: its own subjects, and answers to requests.

A node's id is a token of its subjects. If the server restricts each node to its own subjects, the
subject of a message proves the id of its sender. Answers to requests need only `allow_responses`
of NATS.
"""

from dragoman.dialects.ncl import logs, wire
from dragoman.dialects.ncl.discovery import PREFIX


def may_publish(node: str) -> tuple[str, ...]:
    """Return the subjects a node publishes to."""
    return (
        wire.compute_subject(node, "out.>"),
        f"{wire.MANAGEMENT}.{node}.>",
        # Heartbeats of log streams.
        f"{logs.HEARTBEAT_INBOX}.{logs.STREAM_INBOX}.>",
    )


def may_subscribe(node: str) -> tuple[str, ...]:
    """Return the subjects a node subscribes to."""
    return (
        wire.compute_subject(node, "in.>"),
        f"node.compute.{node}.>",
        f"_INBOX.{node}.>",
        f"{PREFIX}.>",
    )
