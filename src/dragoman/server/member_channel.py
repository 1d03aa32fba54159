"""Messages between the brokers of one cluster, over the NATS that carries its ledger.

A request goes to one node or to all of them; each answers with one JSON object. Only members have
the cluster's token, so whoever can send here is trusted. Nothing here is stored: a message that is
lost is asked again by its sender.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Any, Final

import msgspec
import structlog

from dragoman.transports.nats import Nats

log = structlog.get_logger("dragoman.cluster")

#: Messages handled in one turn of the loop.
_DRAIN: Final = 1000

Content = dict[str, Any]
#: Answers a request; None: this node has no answer.
Handler = Callable[[Content], Content | None]


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
        self._prefix = f"dragoman.member.{cluster}"
        self._inbox = f"{self._prefix}.answer.{os.urandom(8).hex()}"
        self._node = node
        self.handlers = handlers if handlers is not None else {}
        own = [f"{self._prefix}.all", f"{self._prefix}.node.{node}"] if node else []
        self._nats = Nats(
            url,
            [f"{self._inbox}.*", *own],
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

    async def ask(self, node: str, kind: str, within: float, **content: Any) -> Content:
        """Ask one node; return its answer. Raises TimeoutError."""
        async with asyncio.timeout(within):
            queue = self._send(f"node.{node}", kind, content)
            return await queue.get()

    async def ask_all(self, kind: str, within: float, most: int, **content: Any) -> list[Content]:
        """Ask every node; return the answers that come in time, at most so many."""
        queue, answers = self._send("all", kind, content), list[Content]()
        try:
            async with asyncio.timeout(within):
                while len(answers) < most:
                    answers.append(await queue.get())
        except TimeoutError:
            pass
        return answers

    def _send(self, to: str, kind: str, content: Content) -> "asyncio.Queue[Content]":
        self._number += 1
        answer = f"{self._inbox}.{self._number}"
        # Answers that come later than the caller waits find no queue.
        self._waiting = dict(list(self._waiting.items())[-100:])
        queue = self._waiting[answer] = asyncio.Queue()
        body = msgspec.json.encode({**content, "kind": kind})
        self._nats.send(f"{self._prefix}.{to}".encode(), [body, b"", answer.encode()])
        self._nats.flush()
        return queue

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
            body = msgspec.json.encode({**answer, "node": self._node})
            self._nats.send(reply, [body, b"", b""])
            self._nats.flush()
