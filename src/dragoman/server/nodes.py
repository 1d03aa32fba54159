"""Compute nodes and their nkeys: the NATS users with their subjects, and the key of a subject."""

from collections.abc import Callable, Mapping, Sequence

from dragoman.dialects.descriptor import NodeSubjects
from dragoman.transports.nats_users import NatsUser

#: Node names by public nkey, the principal's own name first, for every nkey that is allowed now.
Nkeys = Callable[[], Mapping[str, Sequence[str]]]


class Nodes:
    """The node names of each nkey.

    A name must be one token of a subject. A name with a dot is refused, not converted: `a.b` is
    below the subjects of a node `a`, and `a-b` may be another principal.
    """

    def __init__(self, nkeys: Nkeys, subjects: NodeSubjects) -> None:
        self._nkeys = nkeys
        self._subjects = subjects
        self._key_of: dict[str, str] = {}

    def users(self) -> list[NatsUser]:
        """Return the users of the NATS server, and remember the key of each node."""
        found: list[NatsUser] = []
        of = self._subjects
        key_of: dict[str, str] = {}
        named = self._nkeys()
        owners = {names[0] for names in named.values() if names}
        for nkey, names in sorted(named.items()):
            # A name that a token allows does not lead to the subjects of another principal.
            own = [name for name in names if name == names[0] or name not in owners]
            nodes = [name for name in own if of.is_node_id(name)]
            key_of |= {node: f"nkey:{nkey}" for node in nodes if node not in key_of}
            found.append(
                NatsUser(
                    nkey,
                    tuple(subject for node in nodes for subject in of.may_publish(node)),
                    tuple(subject for node in nodes for subject in of.may_subscribe(node)),
                )
            )
        self._key_of = key_of
        return [user for user in found if user.publish]

    def key_of(self, subject: str) -> str:
        """Return the key of the node in a subject; empty if no key has that node."""
        if not self._key_of:
            self.users()
        return self._key_of.get(self._subjects.node_of(subject), "")
