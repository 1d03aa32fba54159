"""Planted bugs of webhooks: an end is told to nobody, or told before it is one."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from dragoman.core import endings
from dragoman.core.events import Noted
from dragoman.core.jobs import Job
from dragoman.model.record import Kind, Record
from dragoman.server.webhook_queue import Delivery, WebhookQueue
from dragoman.testing.bugs.planting import Bugs, replaced

BUGS: Final = Bugs()


@BUGS.add
def webhook_lost_in_a_restart() -> Iterator[None]:
    """The kept position is that of the last record read, delivered or not."""
    with replaced(WebhookQueue, "kept_position", property(lambda queue: queue.after)):
        yield


@BUGS.add
def webhook_not_repeated() -> Iterator[None]:
    """A delivery that failed is dropped."""

    def failed(self: WebhookQueue, delivery: Delivery, reason: str, now: float) -> None:
        self._pending.pop((delivery.record.job, delivery.is_own), None)

    with replaced(WebhookQueue, "failed", failed):
        yield


@BUGS.add
def webhook_outcome_lost() -> Iterator[None]:
    """A delivery is over before the record of its outcome is on disk."""

    def delivered(self: WebhookQueue, delivery: Delivery) -> Noted:
        self._pending.pop((delivery.record.job, delivery.is_own), None)
        return old(self, delivery)

    old = WebhookQueue.delivered
    with replaced(WebhookQueue, "delivered", delivered):
        yield


@BUGS.add
def webhook_before_the_end() -> Iterator[None]:
    """A job that is submitted with a webhook is told of at once."""

    def read(self: WebhookQueue, record: Record) -> None:
        old(self, record)
        if record.kind == Kind.SUBMITTED and record.terms:
            old(self, replace(record, kind=Kind.ENDED))

    old = WebhookQueue.read
    with replaced(WebhookQueue, "read", read):
        yield


@BUGS.add
def webhook_forgotten_at_a_cancel() -> Iterator[None]:
    """The end of a cancelled job does not name its webhook."""

    def hook_terms(job: Job) -> str:
        return "" if job.cancel_asked_at else old(job)

    old = endings.hook_terms
    with replaced(endings, "hook_terms", hook_terms):
        yield
