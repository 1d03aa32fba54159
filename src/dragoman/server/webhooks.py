"""Webhooks: the end of a job is posted to the URL of its service, and to its own.

The runner reads the ledger behind a checkpoint. Each delivery that succeeds, or is given up, is a
`notified` record. After a restart the runner reads on from the checkpoint: ends without such a
record are delivered, so each end is delivered at least once. The checkpoint stays before the
oldest end that is not delivered.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
import structlog

from dragoman.core.events import Event, Noted
from dragoman.ledger.base import Entry, Ledger, LedgerError
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.record import Record
from dragoman.server.health import Health
from dragoman.server.loop import Loop
from dragoman.server.settings import BrokerSettings
from dragoman.server.webhook_post import (
    DELIVERY,
    SIGNATURE,
    HookPolicy,
    HookRefused,
    open_secret,
    post,
    signature,
)
from dragoman.server.webhook_queue import Delivery, WebhookQueue

log = structlog.get_logger("dragoman.webhooks")

CHECKPOINT: Final = "webhooks"
SECRET_FILE: Final = "webhook.key"
_PIECE: Final = 1000
#: Seconds before the ledger is read again after an error.
_BACKOFF: Final = 1.0
#: Deliveries at a time, and deliveries in memory; further records are read later.
_AT_A_TIME: Final = 8
MOST_PENDING: Final = 10_000
_FIELDS: Final = ("seq", "job", "service", "task", "worker", "state", "fault", "detail", "attempt")
_KEEP_EVERY: Final = 1.0

#: Posts a body to a URL with headers. Raises OSError and `HookRefused`. Blocks.
Post = Callable[[str, dict[str, str], bytes], None]


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
        *,
        is_used: bool = True,
    ) -> None:
        self._ledger = ledger
        self._secret = secret
        self._post = post
        self._submit = submit
        self._now = now
        self._is_used = is_used
        known = ledger.checkpoints().get(CHECKPOINT)
        # Without a checkpoint there never was a webhook: old jobs are not news.
        after = ledger.last_seq if known is None else known
        if known is None and is_used:
            ledger.checkpoint(CHECKPOINT, after)
        self._queue = WebhookQueue(services, after, attempts)
        self._kept_at = 0.0
        self._durable = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def durable(self, entries: Sequence[Entry]) -> None:
        """Wake the runner."""
        self._durable.set()

    def start(self, health: Health) -> None:
        """Start, on the running event loop, if there may be webhooks."""
        if self._is_used:
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
        if len(self._queue) >= MOST_PENDING:
            return False
        after = max(self._queue.after, self._ledger.first_seq - 1)
        records = list(self._ledger.read(after, _PIECE))
        for record in records:
            self._queue.read(record)
        if records:
            self._keep_position()
        return bool(records)

    def _keep_position(self, is_last: bool = False) -> None:
        """Store the position, at most once a second: each time costs a write to the disk."""
        if not is_last and self._now() - self._kept_at < _KEEP_EVERY:
            return
        self._kept_at = self._now()
        self._ledger.checkpoint(CHECKPOINT, self._queue.kept_position)

    # --- delivering -----------------------------------------------------------------------------

    async def deliver_due(self) -> float | None:
        """Deliver what is due; return the seconds until the next delivery is; None: none is."""
        due = self._queue.due(self._now())
        for start in range(0, len(due), _AT_A_TIME):
            await asyncio.gather(*map(self._deliver, due[start : start + _AT_A_TIME]))
        next_at = self._queue.next_at()
        return None if next_at is None else max(next_at - self._now(), 0.0)

    async def _deliver(self, delivery: Delivery) -> None:
        delivery.attempts += 1
        outcome: Noted | None
        try:
            await asyncio.to_thread(self._send, delivery)
        except HookRefused as error:
            outcome = self._queue.refused(delivery, str(error))
        except OSError as error:
            outcome = self._queue.failed(delivery, str(error), self._now())
        else:
            outcome = self._queue.delivered(delivery)
        if outcome is not None:
            self._submit(outcome)

    def _send(self, delivery: Delivery) -> None:
        body = hook_body(delivery.record)
        headers = {
            "Content-Type": "application/json",
            DELIVERY: delivery.record.job,
            SIGNATURE: signature(self._secret, int(self._now()), body),
        }
        self._post(delivery.url, headers, body)


def make_webhooks(
    settings: BrokerSettings, ledger: Ledger, loop: Loop, now: Callable[[], float]
) -> WebhookRunner:
    """Return the runner of a broker, as the settings say."""
    section = settings.webhooks
    path = section.secret or settings.data / SECRET_FILE
    secret = open_secret(path) if section.is_used else b""
    send = partial(post, policy=section.policy(settings.security.enabled))
    more = (now, section.attempts)
    runner = WebhookRunner(
        ledger, section.services, secret, send, loop.submit, *more, is_used=section.is_used
    )
    loop.engine.hook_fault = partial(hook_fault, section.job_policy(settings.security.enabled))
    if section.is_used:
        loop.listeners.append(runner.durable)
    return runner


def hook_fault(policy: HookPolicy, url: str) -> Fault | None:
    """Return why a job may not have a webhook at this URL; None: it may."""
    try:
        policy.check_url(url)
    except HookRefused as error:
        advice = "ask the operator to list the host there, or leave the webhook out"
        return Fault(FaultCode.DENIED, f"webhook: {error}; {advice}")
    return None


def hook_body(record: Record) -> bytes:
    """Return what a webhook gets: the end of a job, without its result."""
    found = {name: getattr(record, name) for name in _FIELDS}
    return msgspec.json.encode({**found, "ended_at": record.at})
