"""The real core and the web application in one event loop, without sockets, disk or clock."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

from tests.kept_bodies import KeptBodies

from dragoman.core.broker import Broker
from dragoman.core.effects import Append, Effect, SendReply, SendStatus
from dragoman.core.events import TimeAdvanced
from dragoman.dialects.base import Send, Subscribed
from dragoman.dialects.http.broker_side import HttpBrokerSide
from dragoman.dialects.http.settings import HttpSettings
from dragoman.model.record import Kind, Record
from dragoman.web.app import Application
from dragoman.web.broker_connection import WebBrokerConnection

Answer = tuple[int, Any]


class MemoryBroker:
    """Handles what the application hands over, in the next turn of the event loop."""

    def __init__(self, settings: HttpSettings | None = None) -> None:
        self.connection = WebBrokerConnection()
        self.side = HttpBrokerSide()
        self.core = Broker()
        self.now = 1000.0
        self.records: list[Record] = []
        self.bodies = KeptBodies()
        self.subscribed: list[Subscribed] = []
        #: Set it to keep the broker from answering.
        self.is_silent = False
        ids = count(1)
        self.application = Application(
            self.connection, settings or HttpSettings(), lambda: f"{next(ids):08x}".ljust(32, "0")
        )
        self.disconnected = asyncio.Event()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()

        def wake() -> None:
            loop.call_soon(self.turn)

        await self.connection.open(wake)

    def turn(self) -> None:
        """Handle everything that was handed over."""
        if self.is_silent:
            return
        for address, items in list(self.connection.drain(1000)):
            for item in self.side.receive(address, items, self.now):
                if isinstance(item, Send):
                    self.connection.send(item.address, item.frames)
                elif isinstance(item, Subscribed):
                    self.subscribed.append(item)
                else:
                    self._carry_out(self.core.handle(item, self.now))
        self.core.validate()

    def _carry_out(self, effects: list[Effect]) -> None:
        ended: list[str] = []
        for effect in effects:
            if isinstance(effect, Append):
                self.records.append(effect.record)
                self.bodies.keep(effect)
                ended += [effect.record.job] if effect.record.kind == Kind.ENDED else []
                continue
            for send in self.side.render(self._completed(effect), self.now):
                self.connection.send(send.address, send.frames)
        self.application.jobs_ended(ended)

    def _completed(self, effect: Effect) -> Effect:
        """Add bodies from the records, as the server's archive does."""
        if isinstance(effect, SendReply) and effect.seq:
            return replace(effect, body=self.bodies[effect.seq])
        if isinstance(effect, SendStatus) and effect.status is not None:
            parts = [replace(p, body=p.body or self.bodies.get(p.seq)) for p in effect.status.parts]
            return replace(effect, status=replace(effect.status, parts=tuple(parts)))
        return self.bodies.fill(effect)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self._carry_out(self.core.handle(TimeAdvanced(), self.now))

    def kinds(self, kind: Kind) -> list[Record]:
        return [record for record in self.records if record.kind == kind]

    # --- requests -----------------------------------------------------------------------------

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Make one request; return its status and JSON."""
        sent: list[dict[str, Any]] = []
        messages = [{"type": "http.request", "body": json.dumps(body).encode() if body else b""}]

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            await self.disconnected.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        path, _, query = path.partition("?")
        named = {"Content-Type": "application/json", "Dragoman-Client": "alice"} | {
            name.replace("_", "-"): text for name, text in headers.items()
        }
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "scheme": "http",
            "query_string": query.encode(),
            "headers": [(k.lower().encode(), v.encode()) for k, v in named.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8420),
        }
        asgi: Any = self.application.asgi
        await asgi(scope, receive, send)
        found = b"".join(m.get("body", b"") for m in sent[1:])
        with suppress(ValueError):
            return sent[0]["status"], json.loads(found)
        return sent[0]["status"], found

    def begin(self, method: str, path: str, body: Any = None, **headers: str) -> "Pending":
        """Begin a request that waits."""
        return asyncio.create_task(self.ask(method, path, body, **headers))

    async def settle(self) -> None:
        """Let everything run that does not wait for a clock."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def register(self, service: str = "s", **more: Any) -> str:
        """Register a worker; return its session's path."""
        status, found = await self.ask("POST", "/v1/workers", {"services": [service], **more})
        assert status == 201, found
        return f"/v1/workers/{found['session']}"

    async def submit(self, job: str = "j", **more: Any) -> Answer:
        """Submit a job for the service `s`."""
        return await self.ask("POST", "/v1/jobs", {"service": "s", "job": job, **more})

    async def poll(self, worker: str, after: int = 0) -> Any:
        """Return the next message that waits for a worker."""
        status, found = await self.ask("POST", f"{worker}/poll", {"wait": 0.0, "after": after})
        assert status == 200, found
        await self.settle()
        return found


Pending = asyncio.Task[Answer]
Scene = Callable[[MemoryBroker], Coroutine[Any, Any, None]]


def play(scene: Scene, settings: HttpSettings | None = None) -> None:
    """Run a scene with a new broker."""

    async def act() -> None:
        broker = MemoryBroker(settings)
        await broker.start()
        await scene(broker)

    asyncio.run(act())
