"""A connection to the NATS servers of a cluster, on a thread of its own, behind calls that block.

The ledger's writer is a thread, so it needs calls that wait. Requests are sent as JetStream's API
defines them. Errors are built-in ones: TimeoutError and ConnectionError mean that the outcome is
unknown, OSError with ENOSPC that the server refused the message because the stream is full.
"""

import asyncio
import contextlib
import errno
import json
import logging
import ssl
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import CancelledError
from typing import Any, Final, TypeVar

import nats
import nats.errors
from nats.aio.client import Client

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds that one request may take.
REQUEST: Final = 1.5
#: Seconds to connect, and to create a stream while its servers find each other.
PATIENCE: Final = 20.0
_PENDING: Final = 64 * 2**20
_PING_EVERY: Final = 1
NOT_FOUND: Final = 404
_WRONG_SEQUENCE: Final = frozenset({10071, 10164})
_FULL: Final = frozenset({10047, 10077, 10122})

Json = dict[str, Any]
Headers = dict[str, str]


class JetStreamRefusal(Exception):
    """The server has answered with an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(error.get("description", str(error)))
        self.code = int(error.get("code", 0))
        self.reason = int(error.get("err_code", 0))

    def require_taken(self) -> None:
        """Return if the place of a message is taken; else raise what the caller understands."""
        if self.reason in _WRONG_SEQUENCE:
            return
        if self.reason in _FULL:
            raise OSError(errno.ENOSPC, str(self))
        # Among them "duplicate message id is in process": the outcome is unknown.
        raise TimeoutError(str(self))


def parse_headers(raw: bytes) -> Headers:
    """Parse the headers of a stored message."""
    lines = raw.decode(errors="replace").split("\r\n")[1:]
    pairs = (line.partition(":") for line in lines if line)
    return {name: content.strip() for name, _, content in pairs}


class JetStreamConnection:
    """A connection to some of the servers of a cluster; it reconnects by itself."""

    def __init__(
        self,
        servers: Sequence[str],
        *,
        user: str = "",
        password: str = "",
        nkey_seed: str = "",
        tls: ssl.SSLContext | None = None,
        name: str = "dragoman",
        patience: float = PATIENCE,
    ) -> None:
        """Connect. Raises ConnectionError if no server answers in time."""
        self._options: dict[str, Any] = {
            "servers": list(servers),
            "user": user or None,
            "password": password or None,
            "nkeys_seed_str": nkey_seed or None,
            "tls": tls,
            "name": name,
        }
        self._client: Client | None = None
        self._is_closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="jetstream", daemon=True
        )
        self._thread.start()
        try:
            self.run(self._connect(patience), patience + REQUEST)
        except BaseException:
            self.close()
            raise

    async def _connect(self, patience: float) -> None:
        try:
            async with asyncio.timeout(patience):
                self._client = await nats.connect(
                    **self._options,
                    connect_timeout=2,
                    reconnect_time_wait=0.1,
                    max_reconnect_attempts=-1,
                    ping_interval=_PING_EVERY,
                    pending_size=_PENDING,
                    error_cb=_log_error,
                )
        except (OSError, nats.errors.Error) as error:
            servers = ", ".join(self._options["servers"])
            raise ConnectionError(f"no NATS server of {servers} answers: {error}") from error

    def create(self, config: Json) -> None:
        """Create a stream; wait until its servers have found each other.

        Raises TimeoutError with the last answer of the servers.
        """
        name, answer = config["name"], "no answer"

        async def until_created() -> None:
            nonlocal answer
            while True:
                try:
                    with contextlib.suppress(JetStreamRefusal):
                        await self.ask(f"STREAM.INFO.{name}", {})
                        return
                    await self.ask(f"STREAM.CREATE.{name}", config)
                except (JetStreamRefusal, OSError) as error:
                    answer = str(error)
                    log.info("the stream %s cannot be created yet: %s", name, answer)
                    await asyncio.sleep(0.2)

        async def in_time() -> None:
            try:
                async with asyncio.timeout(PATIENCE):
                    await until_created()
            except TimeoutError:
                raise TimeoutError(f"the stream {name} cannot be created: {answer}") from None

        self.run(in_time(), PATIENCE + REQUEST)

    # --- requests, on the thread of the client ---------------------------------------------------

    async def request(
        self, subject: str, data: bytes, headers: Headers | None = None, at_most: float = REQUEST
    ) -> Json:
        """Send a request; return the answer.

        Raises JetStreamRefusal, TimeoutError and ConnectionError.
        """
        try:
            found = await self.client.request(subject, data, at_most, headers=headers)
        except (TimeoutError, nats.errors.TimeoutError) as error:
            raise TimeoutError(f"no answer within {at_most:g} s") from error
        except nats.errors.Error as error:  # no responders, closed, and the like
            raise ConnectionError(str(error)) from error
        answer: Json = json.loads(found.data)
        if "error" in answer:
            raise JetStreamRefusal(answer["error"])
        return answer

    async def ask(self, call: str, argument: Json) -> Json:
        """Call JetStream's API."""
        return await self.request(f"$JS.API.{call}", json.dumps(argument).encode())

    @property
    def client(self) -> Client:
        """The NATS client. Raises ConnectionError before it is connected and after `close`."""
        if self._client is None or self._is_closed:
            raise ConnectionError("the connection to NATS is closed")
        return self._client

    def run(self, work: Coroutine[object, object, T], at_most: float) -> T:
        """Run a coroutine on the thread of the client, and wait for it."""
        if self._is_closed:
            work.close()
            raise ConnectionError("the connection to NATS is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(at_most)
        except CancelledError:
            raise ConnectionError("the connection to NATS is closed") from None
        except TimeoutError:
            future.cancel()
            raise

    def close(self) -> None:
        """Give up what is under way, and close."""
        if self._is_closed:
            return
        self._is_closed = True
        asyncio.run_coroutine_threadsafe(self._close(), self._loop)
        self._thread.join(5.0)
        if not self._thread.is_alive():
            self._loop.close()

    async def _close(self) -> None:
        if self._client is not None:
            with contextlib.suppress(Exception):  # it ends anyhow
                async with asyncio.timeout(2.0):
                    await self._client.close()
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task():
                task.cancel()
        await asyncio.sleep(0)
        self._loop.stop()


async def _log_error(error: Exception) -> None:
    log.debug("NATS: %s", error)
