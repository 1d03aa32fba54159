"""One message on its way into the stream, until it is known whether it is there.

No answer means in doubt, never "not stored". So the same message is published again, with the same
id and the same expected sequence: it can be stored once at most. If another message is at its
place, another leader has written.
"""

from hashlib import blake2b

from dragoman.ledger.base import Fenced
from dragoman.ledger.stream import Stream

_ID_SIZE = 16


def content_id(data: bytes) -> str:
    """Return the id of a message.

    An id that did not depend on the content could make the stream take a new message for the
    duplicate of an old one.
    """
    return blake2b(data, digest_size=_ID_SIZE).hexdigest()


class Publication:
    """A message and its place: directly behind the sequence `after`."""

    __slots__ = ("after", "data", "id")

    def __init__(self, data: bytes, after: int) -> None:
        self.data = data
        self.after = after
        self.id = content_id(data)

    def attempt(self, stream: Stream) -> int | None:
        """Publish once; return the message's last sequence, or None while in doubt.

        Raises Fenced if another message is at its place, and OSError if the stream is full.
        """
        try:
            stored = stream.publish(self.data, self.id, self.after)
            return stored if stored is not None else self._find(stream)
        except (TimeoutError, ConnectionError):
            return None

    def _find(self, stream: Stream) -> int | None:
        """Look for the message at its place, after the stream refused it."""
        found = stream.read(self.after + 1)
        if found is None:  # not applied yet where we asked
            return None
        if found.id != self.id:
            raise Fenced(
                f"another leader has written message {found.first} of the ledger's stream;"
                " this broker no longer leads"
            )
        return found.last
