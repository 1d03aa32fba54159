"""Messages between the brokers of one cluster, over the NATS that carries its ledger.

A request goes to one node or to all of them; each answers with one JSON object. Only members have
the cluster's token, so whoever can send here is trusted. Nothing here is stored: a message that is
lost is asked again by its sender.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import structlog

from dragoman.transports.nats import Nats

log = structlog.get_logger("dragoman.cluster")

#: Messages handled in one turn of the loop.
_DRAIN: Final = 1000
#: Seconds after which a request to one node is repeated.
_REPEAT: Final = 0.25

Content = dict[str, Any]
#: Answers a request; None: this node has no answer.
Handler = Callable[[Content], Content | None]


def member_prefix(cluster: str) -> str:
    """Return the beginning of the subjects of a cluster's members."""
    return f"dragoman.member.{cluster}"


class MemberChannel:
    """One member's end. `handlers` answer requests, by their kind."""

    def __init__(
        self,
        url: str,
        cluster: str,
        node: str = "",
        handlers: "dict[str, Handler] | None" = None,
        **options: Any,
    ) -> None:
        self._prefix = member_prefix(cluster)
        self._answers = f"{self._prefix}.answer.{os.urandom(8).hex()}"
        self.node = node
        self.handlers = handlers if handlers is not None else {}
        own = [f"{self._prefix}.all", f"{self._prefix}.node.{node}"] if node else []
        self._nats = Nats(
            url,
            [f"{self._answers}.*", *own],
            name=f"dragoman member {node}",
            connects_in_background=bool(node),
            **options,
        )
        self._waiting: dict[str, asyncio.Queue[Content]] = {}
        self._number = 0

    async def open(self) -> None:
        """Connect. A member connects in the background."""
        await self._nats.open(self._receive)

    async def close(self) -> None:
        """Disconnect."""
        await self._nats.close()

    async def ask(self, node: str, kind: str, within: float, **content: object) -> Content:
        """Ask one node, again and again; return its first answer. Raises TimeoutError."""
        with self._inbox() as (inbox, answers):
            async with asyncio.timeout(within):
                while True:
                    self._send(f"node.{node}", inbox, kind, content)
                    try:
                        async with asyncio.timeout(_REPEAT):
                            return await answers.get()
                    except TimeoutError:
                        # The node may have just connected, or lost its connection.
                        continue

    async def call(self, subject: str, within: float) -> Content:
        """Send an empty request to a subject outside of the cluster's; return the answer.

        Raises TimeoutError.
        """
        with self._inbox() as (inbox, answers):
            self._nats.send(subject.encode(), [b"", b"", inbox.encode()])
            self._nats.flush()
            async with asyncio.timeout(within):
                return await answers.get()

    async def call_all(
        self, subject: str, within: float, is_enough: Callable[[list[Content]], bool]
    ) -> list[Content]:
        """Send an empty request to a subject outside of the cluster's; return all answers.

        It waits until they are enough, or the time is over.
        """
        found: list[Content] = []
        with self._inbox() as (inbox, answers):
            self._nats.send(subject.encode(), [b"", b"", inbox.encode()])
            self._nats.flush()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within):
                    while not is_enough(found):
                        found.append(await answers.get())
        return found

    async def ask_all(
        self, kind: str, within: float, most: int, **content: object
    ) -> list[Content]:
        """Ask every node; return the answers that come in time, at most so many."""
        found: list[Content] = []
        with self._inbox() as (inbox, answers):
            self._send("all", inbox, kind, content)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within):
                    while len(found) < most:
                        found.append(await answers.get())
        return found

    @contextlib.contextmanager
    def _inbox(self) -> "Iterator[tuple[str, asyncio.Queue[Content]]]":
        """Make a subject for answers; those that come after the block find no reader."""
        self._number += 1
        subject = f"{self._answers}.{self._number}"
        queue = self._waiting[subject] = asyncio.Queue()
        try:
            yield subject, queue
        finally:
            del self._waiting[subject]

    def _send(self, to: str, answer: str, kind: str, content: Content) -> None:
        body = msgspec.json.encode({**content, "kind": kind})
        self._nats.send(f"{self._prefix}.{to}".encode(), [body, b"", answer.encode()])
        self._nats.flush()

    def _receive(self) -> None:
        for subject, (body, _, reply) in self._nats.drain(_DRAIN):
            try:
                content = msgspec.json.decode(body, type=dict[str, Any])
            except msgspec.DecodeError:
                continue  # a notice of the connection, or no member
            waiting = self._waiting.get(subject.decode())
            if waiting is not None:
                waiting.put_nowait(content)
            elif reply:
                self._answer(content, reply)

    def _answer(self, content: Content, reply: bytes) -> None:
        handler = self.handlers.get(str(content.get("kind")))
        answer = handler(content) if handler is not None else None
        if answer is not None:
            body = msgspec.json.encode({**answer, "node": self.node})
            self._nats.send(reply, [body, b"", b""])
            self._nats.flush()
