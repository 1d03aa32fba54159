"""Which ends of jobs are to be posted where, and when. No I/O: the simulation runs it too.

The queue is a fold of records behind a position: an end with a webhook adds a delivery, `notified`
removes it. So it can be built again from the position that `kept_position` names: that is
before the oldest end that is not delivered.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from dragoman.core.events import Noted
from dragoman.model.names import JobId, ServiceName
from dragoman.model.record import Kind, Record
from dragoman.model.terms import read_terms

#: Seconds before the second attempt; each wait is twice the one before, up to the longest.
_BACKOFF: Final = 1.0
_LONGEST_BACKOFF: Final = 600.0
#: Begins the detail of a `notified` record about the job's own webhook.
_OWN: Final = "the job's own: "


@dataclass
class Delivery:
    """The end of a job that is to be posted to one URL."""

    record: Record
    url: str
    #: Whether the job named the URL itself.
    is_own: bool = False
    attempts: int = 0
    due_at: float = 0.0
    #: Whether its outcome is known. It stays here until the record of that is on disk.
    is_ended: bool = False


class WebhookQueue:
    """The deliveries that are open."""

    def __init__(self, services: Mapping[str, str], after: int, attempts: int) -> None:
        self._services = services
        self._attempts = attempts
        #: The last record that was read.
        self.after = after
        self._pending: dict[tuple[str, bool], Delivery] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def read(self, record: Record) -> None:
        """Read the next record."""
        self.after = record.seq
        if record.kind == Kind.NOTIFIED:
            self._pending.pop((record.job, record.detail.startswith(_OWN)), None)
        elif record.kind == Kind.ENDED:
            self._add(record, self._services.get(record.service, ""), is_own=False)
            if record.terms:
                self._add(record, read_terms(record.terms).webhook, is_own=True)

    def _add(self, record: Record, url: str, is_own: bool) -> None:
        if url:
            self._pending[record.job, is_own] = Delivery(record, url, is_own)

    @property
    def kept_position(self) -> int:
        """The position to read on from after a restart."""
        oldest = min((each.record.seq for each in self._pending.values()), default=self.after + 1)
        return min(oldest - 1, self.after)

    def due(self, now: float) -> list[Delivery]:
        """Return the deliveries that are due."""
        found = self._pending.values()
        return [each for each in found if each.due_at <= now and not each.is_ended]

    def next_at(self) -> float | None:
        """Return when the next delivery is due; None: there is none."""
        found = (each.due_at for each in self._pending.values() if not each.is_ended)
        return min(found, default=None)

    def delivered(self, delivery: Delivery) -> Noted:
        """End a delivery that succeeded; return what to record."""
        return self._end(delivery, f"delivered, attempt {delivery.attempts}")

    def refused(self, delivery: Delivery, reason: str) -> Noted:
        """End a delivery that must not be; return what to record."""
        return self._end(delivery, f"refused: {reason}")

    def failed(self, delivery: Delivery, reason: str, now: float) -> Noted | None:
        """Try again later, or give up; return what to record then."""
        if delivery.attempts >= self._attempts:
            return self._end(delivery, f"given up after {delivery.attempts} attempts: {reason}")
        wait = min(_BACKOFF * 2.0 ** (delivery.attempts - 1), _LONGEST_BACKOFF)
        delivery.due_at = now + wait
        return None

    def _end(self, delivery: Delivery, outcome: str) -> Noted:
        """Return the outcome. The query of a URL may be secret: only its host is recorded."""
        record = delivery.record
        delivery.is_ended = True
        whose = _OWN if delivery.is_own else ""
        return Noted(
            Kind.NOTIFIED,
            detail=f"{whose}{urlsplit(delivery.url).hostname}: {outcome}"[:500],
            job=JobId(record.job),
            service=ServiceName(record.service),
        )
