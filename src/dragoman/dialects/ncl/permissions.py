"""What a compute node may do on NATS: speak as itself, listen for itself, and answer.

A node's id is a token of its subjects, so a server that keeps each node to its own subjects has
proved the id of whoever is heard on them. Answers go to the subjects that requests came with; that
is `allow_responses` of NATS, and nothing else is needed for them.
"""

from dragoman.dialects.ncl import logs, wire
from dragoman.dialects.ncl.discovery import PREFIX


def may_publish(node: str) -> tuple[str, ...]:
    """Return the subjects a node speaks on."""
    return (
        wire.compute_subject(node, "out.>"),
        f"{wire.MANAGEMENT}.{node}.>",
        # A stream of logs asks whether its reader is still there.
        f"{logs.BEAT_INBOX}.{logs.STREAM_INBOX}.>",
    )


def may_subscribe(node: str) -> tuple[str, ...]:
    """Return the subjects a node listens to."""
    return (
        wire.compute_subject(node, "in.>"),
        f"node.compute.{node}.>",
        f"_INBOX.{node}.>",
        f"{PREFIX}.>",
    )
