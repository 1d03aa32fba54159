"""The audit trail outside the ledger: records of security interest, and anchors of the ledger.

The sink reads the ledger behind a checkpoint, which it moves after a delivery: every record is
delivered at least once. Anchors are written on a schedule.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec
import structlog

from dragoman.ledger.base import Entry, Ledger, LedgerError
from dragoman.model.fault import FaultCode
from dragoman.model.record import Kind, Record
from dragoman.server.anchors import open_signing_key, sign
from dragoman.server.health import Health
from dragoman.server.record_targets import RecordTarget, open_target
from dragoman.server.settings import SecuritySection

log = structlog.get_logger("dragoman.security")

CHECKPOINT: Final = "audit sink"
ANCHOR_KEY: Final = "anchor.key"
_PIECE: Final = 1000
_RETRY: Final = 5.0
_KINDS: Final = frozenset(
    {Kind.ALLOWED, Kind.DENIED, Kind.CHANGED, Kind.REJECTED, Kind.JOINED, Kind.LEFT}
    | {Kind.STARTED, Kind.STOPPED}
)
_FIELDS: Final = (
    *("seq", "at", "kind", "principal", "client", "peer", "worker", "service", "task", "job"),
    *("fault", "detail", "digest"),
)

Head = Callable[[], tuple[int, str]]


def is_of_interest(record: Record) -> bool:
    """Tell whether a record is about security."""
    return record.kind in _KINDS or (
        record.kind == Kind.REFUSED and record.fault == FaultCode.DENIED
    )


def json_line(record: Record) -> bytes:
    """Return a record as a JSON line, without its empty fields."""
    row: dict[str, object] = {name: getattr(record, name) for name in _FIELDS}
    return msgspec.json.encode({k: v for k, v in row.items() if v not in ("", None)}) + b"\n"


class AuditSink:
    """Delivers the records of security interest to a target."""

    def __init__(self, ledger: Ledger, target: RecordTarget) -> None:
        self._ledger = ledger
        self._target = target
        self._after = ledger.checkpoints().get(CHECKPOINT, ledger.first_seq - 1)
        self._durable = asyncio.Event()
        #: A cancelled task leaves its thread running, and `stop` delivers in another.
        self._lock = Lock()
        #: Called with why the last delivery failed; empty: it did not.
        self.on_change: Callable[[str], None] = lambda trouble: None

    def durable(self, entries: Sequence[Entry]) -> None:
        """Wake the sink."""
        self._durable.set()

    async def run(self) -> None:
        """Deliver until cancelled; after an error, retry."""
        while True:
            self._durable.clear()
            try:
                await asyncio.to_thread(self.deliver_all)
            except (OSError, LedgerError) as error:
                # The ledger fails as well: the position of the sink is stored there.
                log.error("the audit sink does not take records; retrying", error=str(error))
                self.on_change(str(error))
                await asyncio.sleep(_RETRY)
                continue
            self.on_change("")
            await self._durable.wait()

    def deliver_all(self) -> None:
        """Deliver everything that is durable. Raises OSError."""
        while self.deliver_once():
            pass

    def deliver_once(self) -> bool:
        """Deliver the next records; tell whether there may be more. Raises OSError."""
        with self._lock:
            return self._deliver()

    def _deliver(self) -> bool:
        after = max(self._after, self._ledger.first_seq - 1)
        records = list(self._ledger.read(after, _PIECE))
        if not records:
            return False
        lines = [json_line(record) for record in records if is_of_interest(record)]
        if lines:
            self._target.write(lines)
        self._after = records[-1].seq
        self._ledger.checkpoint(CHECKPOINT, self._after)
        return True


class AnchorWriter:
    """Writes the signed head of the ledger to a target on a schedule."""

    def __init__(
        self, head: Head, key: Path, target: RecordTarget, every: float, now: Callable[[], float]
    ) -> None:
        self._head = head
        self._key = open_signing_key(key)
        self._target = target
        self._every = every
        self._now = now
        self._last = 0
        self._lock = Lock()
        #: Called with why the last anchor failed; empty: it did not.
        self.on_change: Callable[[str], None] = lambda trouble: None

    async def run(self) -> None:
        """Write anchors until cancelled."""
        while True:
            delay = self._every
            try:
                await asyncio.to_thread(self.write_once)
            except OSError as error:
                log.error("cannot write an anchor of the ledger; retrying", error=str(error))
                self.on_change(str(error))
                delay = min(_RETRY, self._every)
            else:
                self.on_change("")
            await asyncio.sleep(delay)

    def write_once(self) -> None:
        """Write an anchor if there are new records. Raises OSError."""
        with self._lock:
            seq, link = self._head()
            if seq > self._last and link:
                self._target.write([sign(self._key, seq, link, self._now())])
                self._last = seq


class AuditExport:
    """The sink and the anchors of one broker, as the settings say; `stop` delivers the rest."""

    def __init__(
        self, settings: SecuritySection, data: Path, ledger: Ledger, head: Head,
        now: Callable[[], float],
    ) -> None:  # fmt: skip
        self._sink = AuditSink(ledger, open_target(settings.sink)) if settings.sink else None
        self._anchors: AnchorWriter | None = None
        if settings.anchor:
            key, target = settings.anchor_key or data / ANCHOR_KEY, open_target(settings.anchor)
            self._anchors = AnchorWriter(head, key, target, settings.anchor_every, now)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def listeners(self) -> list[Callable[[Sequence[Entry]], None]]:
        """What to call when records are durable."""
        return [self._sink.durable] if self._sink else []

    def start(self, health: Health) -> None:
        """Start, on the running event loop."""
        for name, part in (("audit sink", self._sink), ("audit anchors", self._anchors)):
            if part is not None:
                part.on_change = partial(health.note, name)
                task = asyncio.create_task(part.run(), name=f"dragoman {name}")
                self._tasks.append(health.watch(task))

    async def stop(self) -> None:
        """Stop; deliver the last records and write a last anchor, if the targets take them."""
        for task in self._tasks:
            task.cancel()
            await asyncio.wait([task])
        try:
            if self._sink:
                await asyncio.to_thread(self._sink.deliver_all)
            if self._anchors:
                await asyncio.to_thread(self._anchors.write_once)
        except (OSError, LedgerError) as error:
            log.error(
                "cannot deliver the last audit records; the next start will", error=str(error)
            )
