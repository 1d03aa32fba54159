"""Webhooks: the end of a job is posted to the URL of its service.

The runner reads the ledger behind a checkpoint. Each delivery that succeeds, or is given up, is a
`notified` record. After a restart the runner reads on from the checkpoint: ends without such a
record are delivered, so each end is delivered at least once. The checkpoint stays before the
oldest end that is not delivered.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import msgspec
import structlog

from dragoman.core.events import Event, Noted
from dragoman.ledger.base import Entry, Ledger, LedgerError
from dragoman.model.names import JobId, ServiceName
from dragoman.model.record import Kind, Record
from dragoman.server.health import Health
from dragoman.server.loop import Loop
from dragoman.server.settings import BrokerSettings
from dragoman.server.webhook_post import (
    DELIVERY,
    SIGNATURE,
    HookRefused,
    open_secret,
    post,
    signature,
)

log = structlog.get_logger("dragoman.webhooks")

CHECKPOINT: Final = "webhooks"
SECRET_FILE: Final = "webhook.key"
_PIECE: Final = 1000
#: Seconds before the second attempt; each wait is twice the one before, up to the longest.
_BACKOFF: Final = 1.0
_LONGEST_BACKOFF: Final = 600.0
#: Deliveries at a time, and deliveries in memory; further records are read later.
_AT_A_TIME: Final = 8
MOST_PENDING: Final = 10_000
_FIELDS: Final = ("seq", "job", "service", "task", "worker", "state", "fault", "detail", "attempt")
_KEEP_EVERY: Final = 1.0

#: Posts a body to a URL with headers. Raises OSError and `HookRefused`. Blocks.
Post = Callable[[str, dict[str, str], bytes], None]


@dataclass
class Delivery:
    """The end of a job that is to be posted."""

    record: Record
    url: str
    attempts: int = 0
    due_at: float = 0.0


class WebhookRunner:
    """Delivers the ends of jobs until it is stopped."""

    def __init__(
        self,
        ledger: Ledger,
        services: Mapping[str, str],
        secret: bytes,
        post: Post,
        submit: Callable[[Event], None],
        now: Callable[[], float],
        attempts: int = 12,
    ) -> None:
        self._ledger = ledger
        self._services = services
        self._secret = secret
        self._post = post
        self._submit = submit
        self._now = now
        self._attempts = attempts
        known = ledger.checkpoints().get(CHECKPOINT)
        # Without a checkpoint there never was a webhook: old jobs are not news.
        self._after = ledger.last_seq if known is None else known
        if known is None and services:
            ledger.checkpoint(CHECKPOINT, self._after)
        self._pending: dict[str, Delivery] = {}
        self._kept_at = 0.0
        self._durable = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def durable(self, entries: Sequence[Entry]) -> None:
        """Wake the runner."""
        self._durable.set()

    def start(self, health: Health) -> None:
        """Start, on the running event loop, if a service has a webhook."""
        if self._services:
            self._task = asyncio.create_task(self._run(), name="dragoman webhooks")
            health.watch(self._task)

    async def stop(self) -> None:
        """Stop. What is not delivered is delivered after the next start."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait([self._task])
        try:
            await asyncio.to_thread(self._keep_position, is_last=True)
        except LedgerError as error:
            log.error("the position of webhooks is not stored", error=str(error))

    async def _run(self) -> None:
        while True:
            self._durable.clear()
            try:
                while await asyncio.to_thread(self.read_once):
                    pass
                wait = await self.deliver_due()
            except LedgerError as error:
                log.error("webhooks wait for the ledger", error=str(error))
                wait = _BACKOFF
            try:
                async with asyncio.timeout(wait):
                    await self._durable.wait()
            except TimeoutError:
                pass

    # --- reading --------------------------------------------------------------------------------

    def read_once(self) -> bool:
        """Read the next records; tell whether there may be more."""
        if len(self._pending) >= MOST_PENDING:
            return False
        after = max(self._after, self._ledger.first_seq - 1)
        records = list(self._ledger.read(after, _PIECE))
        for record in records:
            self._note(record)
        if records:
            self._after = records[-1].seq
            self._keep_position()
        return bool(records)

    def _keep_position(self, is_last: bool = False) -> None:
        """Store the position, at most once a second: each time costs a write to the disk."""
        if not is_last and self._now() - self._kept_at < _KEEP_EVERY:
            return
        self._kept_at = self._now()
        oldest = min((each.record.seq for each in self._pending.values()), default=self._after + 1)
        self._ledger.checkpoint(CHECKPOINT, min(oldest - 1, self._after))

    def _note(self, record: Record) -> None:
        if record.kind == Kind.NOTIFIED:
            self._pending.pop(record.job, None)
        elif record.kind == Kind.ENDED and (url := self._services.get(record.service)):
            self._pending[record.job] = Delivery(record, url)

    # --- delivering -----------------------------------------------------------------------------

    async def deliver_due(self) -> float | None:
        """Deliver what is due; return the seconds until the next delivery is; None: none is."""
        now = self._now()
        due = [each for each in self._pending.values() if each.due_at <= now]
        for start in range(0, len(due), _AT_A_TIME):
            await asyncio.gather(*map(self._deliver, due[start : start + _AT_A_TIME]))
        next_at = min((each.due_at for each in self._pending.values()), default=None)
        return None if next_at is None else max(next_at - self._now(), 0.0)

    async def _deliver(self, delivery: Delivery) -> None:
        delivery.attempts += 1
        try:
            await asyncio.to_thread(self._send, delivery)
        except HookRefused as error:
            self._end(delivery, f"refused: {error}")
        except OSError as error:
            if delivery.attempts >= self._attempts:
                self._end(delivery, f"given up after {delivery.attempts} attempts: {error}")
            else:
                wait = min(_BACKOFF * 2.0 ** (delivery.attempts - 1), _LONGEST_BACKOFF)
                delivery.due_at = self._now() + wait
        else:
            self._end(delivery, f"delivered, attempt {delivery.attempts}")

    def _send(self, delivery: Delivery) -> None:
        body = hook_body(delivery.record)
        headers = {
            "Content-Type": "application/json",
            DELIVERY: delivery.record.job,
            SIGNATURE: signature(self._secret, int(self._now()), body),
        }
        self._post(delivery.url, headers, body)

    def _end(self, delivery: Delivery, outcome: str) -> None:
        """Record the outcome. The query of a URL may be secret: only its host is recorded."""
        record = delivery.record
        self._pending.pop(record.job, None)
        detail = f"{urlsplit(delivery.url).hostname}: {outcome}"[:500]
        self._submit(
            Noted(
                Kind.NOTIFIED,
                detail=detail,
                job=JobId(record.job),
                service=ServiceName(record.service),
            )
        )


def make_webhooks(
    settings: BrokerSettings, ledger: Ledger, loop: Loop, now: Callable[[], float]
) -> WebhookRunner:
    """Return the runner of a broker, as the settings say."""
    section = settings.webhooks
    path = section.secret or settings.data / SECRET_FILE
    secret = open_secret(path) if section.services else b""
    send = partial(post, policy=section.policy(settings.security.enabled))
    runner = WebhookRunner(
        ledger, section.services, secret, send, loop.submit, now, section.attempts
    )
    if section.services:
        loop.listeners.append(runner.durable)
    return runner


def hook_body(record: Record) -> bytes:
    """Return what a webhook gets: the end of a job, without its result."""
    found = {name: getattr(record, name) for name in _FIELDS}
    return msgspec.json.encode({**found, "ended_at": record.at})
