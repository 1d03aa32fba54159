"""Restores the orchestrator's nodes and live executions from what the records say.

The ledger is the only store. A node's state is the body of a record. An execution is work without a
result. The records do not say what reached a node before the broker stopped. Such executions are
sent again when the node returns and the core claims them.
"""

from collections.abc import Callable, Iterator

from dragoman.core.effects import LinkPast
from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.ncl.models import NodeState
from dragoman.dialects.ncl.wire import read_json
from dragoman.model.body import Body

LoadBody = Callable[[int], Body | None]


def read_nodes(past: LinkPast, load_body: LoadBody) -> Iterator[NodeState]:
    """Yield the nodes as last recorded. An unreadable one is skipped: it joins as new."""
    for seq in past.peer_states.values():
        body = load_body(seq)
        try:
            yield read_json(NodeState, body.parts[0] if body else b"")
        except (MalformedMessage, IndexError):
            continue
