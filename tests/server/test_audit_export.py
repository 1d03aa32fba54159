"""The audit sink delivers at least once; anchors find a ledger that was cut back."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from dragoman.ledger.audit import audit
from dragoman.ledger.base import Entry
from dragoman.ledger.memory import MemoryLedger
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.model.record import Kind, Record
from dragoman.server.anchors import open_signing_key, read_anchors
from dragoman.server.audit_export import CHECKPOINT, AnchorWriter, AuditExport, AuditSink
from dragoman.server.health import Health
from dragoman.server.record_targets import open_target
from dragoman.server.settings import SecuritySection


class Lines:
    """A target in memory that may fail."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.is_broken = False

    def write(self, lines: list[bytes]) -> None:
        if self.is_broken:
            raise OSError("unreachable")
        self.lines += lines

    def seqs(self) -> list[int]:
        return [json.loads(line)["seq"] for line in self.lines]


def entries(first: int, *kinds: Kind, fault: str = "") -> list[Entry]:
    return [Entry(Record(first + n, 1.0, kind, fault=fault)) for n, kind in enumerate(kinds)]


def test_records_of_security_interest_are_delivered_and_no_others() -> None:
    ledger, target = MemoryLedger(), Lines()
    kinds = (Kind.DENIED, Kind.SUBMITTED, Kind.ALLOWED, Kind.ENDED, Kind.CHANGED, Kind.REFUSED)
    asyncio.run(ledger.append(entries(1, *kinds)))
    asyncio.run(ledger.append(entries(7, Kind.REFUSED, fault="denied")))
    sink = AuditSink(ledger, target)
    assert sink.deliver_once()
    assert not sink.deliver_once()
    assert target.seqs() == [1, 3, 5, 7]
    assert json.loads(target.lines[0]) == {
        "seq": 1, "at": 1.0, "kind": "denied", "principal": "anonymous"
    }  # fmt: skip


def test_a_record_is_delivered_again_unless_its_delivery_is_certain() -> None:
    ledger, target = MemoryLedger(), Lines()
    asyncio.run(ledger.append(entries(1, Kind.DENIED)))
    target.is_broken = True
    with pytest.raises(OSError, match="unreachable"):
        AuditSink(ledger, target).deliver_once()
    assert CHECKPOINT not in ledger.checkpoints()
    target.is_broken = False
    AuditSink(ledger, target).deliver_once()
    asyncio.run(ledger.append(entries(2, Kind.DENIED)))
    AuditSink(ledger, target).deliver_once()
    assert target.seqs() == [1, 2]


def test_the_sink_follows_the_ledger_and_a_stop_delivers_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    settings = SecuritySection(sink=f"file://{path}")

    async def scenario() -> None:
        ledger = MemoryLedger()
        export = AuditExport(settings, tmp_path, ledger, lambda: (0, ""), lambda: 1.0)
        export.start(Health(lambda: 1.0))
        batch = entries(1, Kind.DENIED)
        await ledger.append(batch)
        for listener in export.listeners:
            listener(batch)
        async with asyncio.timeout(10):
            while not path.exists():  # noqa: ASYNC110 - the sink has no event of its own
                await asyncio.sleep(0)
        await ledger.append(entries(2, Kind.STOPPED))
        await export.stop()

    asyncio.run(scenario())
    assert [json.loads(line)["kind"] for line in path.read_text().splitlines()] == [
        "denied",
        "stopped",
    ]


def test_an_anchor_finds_that_the_last_records_and_the_head_were_cut_together(
    tmp_path: Path,
) -> None:
    path, anchors = tmp_path / "ledger.sqlite", tmp_path / "anchors.jsonl"
    kept = [path, path.with_name(path.name + ".head")]

    async def write(first: int, count: int) -> None:
        ledger = SqliteLedger(path)
        await ledger.append(entries(first, *[Kind.DENIED] * count))
        target = open_target(f"file://{anchors}")
        writer = AnchorWriter(ledger.head, tmp_path / "anchor.key", target, 60.0, lambda: 1.0)
        writer.write_once()
        writer.write_once()
        await ledger.close()

    asyncio.run(write(1, 5))
    for file in kept:
        shutil.copy(file, f"{file}.old")
    asyncio.run(write(6, 3))
    public = open_signing_key(tmp_path / "anchor.key").verify_key.encode()
    known = read_anchors(anchors.read_bytes(), public)
    assert sorted(known) == [5, 8], "nothing new, no anchor"
    assert audit(path, known=known).is_sound
    for file in kept:
        shutil.copy(f"{file}.old", file)
    assert audit(path).is_sound, "the hash chain alone does not find it"
    (finding,) = audit(path, known=known).findings
    assert (finding.seq, "is missing" in finding.what) == (8, True)
