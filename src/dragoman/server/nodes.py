"""Compute nodes and their nkeys: the NATS users with their subjects, and the key of a subject."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from dragoman.dialects.ncl.permissions import may_publish, may_subscribe
from dragoman.dialects.ncl.wire import is_node_id, parse_subject
from dragoman.transports.nats_users import NatsUser

#: Node names by public nkey, for every nkey that is allowed now.
Nkeys = Callable[[], Mapping[str, Sequence[str]]]
#: A node id is one token of a subject; other characters become `-`, as in the SDK.
_ODD: Final = re.compile(r"[\s.*>\0]")


class Nodes:
    """The node names of each nkey."""

    def __init__(self, nkeys: Nkeys) -> None:
        self._nkeys = nkeys
        self._key_of: dict[str, str] = {}

    def users(self) -> list[NatsUser]:
        """Return the users of the NATS server, and remember the key of each node."""
        found: list[NatsUser] = []
        key_of: dict[str, str] = {}
        for nkey, names in sorted(self._nkeys().items()):
            nodes = [node for name in names if is_node_id(node := _ODD.sub("-", name))]
            key_of |= dict.fromkeys(nodes, f"nkey:{nkey}")
            found.append(
                NatsUser(
                    nkey,
                    tuple(subject for node in nodes for subject in may_publish(node)),
                    tuple(subject for node in nodes for subject in may_subscribe(node)),
                )
            )
        self._key_of = key_of
        return [user for user in found if user.publish]

    def key_of(self, subject: str) -> str:
        """Return the key of the node in a subject; empty if no key has that node."""
        if not self._key_of:
            self.users()
        return self._key_of.get(parse_subject(subject)[1], "")
