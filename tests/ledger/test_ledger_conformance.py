"""The ledger interface: one suite, run on each implementation."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.ledger.entries import entries, entry, fill, record, run, seqs, varied
from tests.nats_trio import NatsTrio

from dragoman.ledger.base import Entry, Ledger, LedgerError
from dragoman.ledger.memory import MemoryLedger
from dragoman.ledger.memory_stream import MemoryStream, StreamConnection
from dragoman.ledger.replicated import ReplicatedLedger
from dragoman.ledger.rows import FIELDS
from dragoman.ledger.sqlite import SqliteLedger
from dragoman.ledger.stream import Stream
from dragoman.model.body import EMPTY, Body
from dragoman.model.record import Kind, Record
from dragoman.transports.jetstream import JetStream
from dragoman.transports.jetstream_connection import JetStreamConnection

Make: TypeAlias = Callable[[Path], Ledger]


def leading(folder: Path, stream: Stream) -> ReplicatedLedger:
    """Open the replicated ledger as its leader."""
    ledger = ReplicatedLedger(folder / "ledger.db", stream)
    ledger.catch_up()
    ledger.lead()
    return ledger


IMPLEMENTATIONS: dict[str, Make] = {
    "memory": lambda folder: MemoryLedger(),
    "sqlite": lambda folder: SqliteLedger(folder / "ledger.db"),
    "replicated": lambda folder: leading(folder, StreamConnection(MemoryStream())),
}


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JetStreamConnection]:
    with NatsTrio(tmp_path_factory.mktemp("nats")) as servers:
        connection = JetStreamConnection(servers.urls)
        yield connection
        connection.close()


@pytest.fixture(params=[*IMPLEMENTATIONS, pytest.param("jetstream", marks=pytest.mark.interop)])
def make(request: pytest.FixtureRequest) -> Make:
    if request.param != "jetstream":
        return IMPLEMENTATIONS[request.param]
    connection: JetStreamConnection = request.getfixturevalue("nats")

    def on_servers(folder: Path) -> Ledger:
        name = uuid4().hex
        return leading(folder, JetStream.open(connection, name, f"ledger.{name}", 3))

    return on_servers


@pytest.fixture
def ledger(make: Make, tmp_path: Path) -> Iterator[Ledger]:
    opened = make(tmp_path)
    yield opened
    run(opened.close())


@pytest.fixture(params=["memory", "sqlite"])
def pinning(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    """A ledger that pins needed records; the replicated one stops at them."""
    opened = IMPLEMENTATIONS[request.param](tmp_path)
    yield opened
    run(opened.close())


def test_a_new_ledger_is_empty(ledger: Ledger) -> None:
    assert (ledger.first_seq, ledger.last_seq) == (1, 0)
    assert list(ledger.read()) == []
    assert ledger.history("j1") == []
    assert ledger.body(1) is None
    assert ledger.checkpoints() == {}


def test_what_is_appended_is_read_back_in_order(ledger: Ledger) -> None:
    assert run(ledger.append(entries(1, 3))) == 3
    assert run(ledger.append(entries(4, 4))) == 4
    assert list(ledger.read()) == [each.record for each in entries(1, 4)]
    assert (ledger.first_seq, ledger.last_seq) == (1, 4)


def test_an_empty_batch_changes_nothing(ledger: Ledger) -> None:
    run(ledger.append(entries(1, 2)))
    assert run(ledger.append([])) == 2


def test_reading_starts_after_a_position_and_stops_at_a_limit(ledger: Ledger) -> None:
    fill(ledger, 2500)
    assert seqs(ledger.read(after=998, limit=5)) == [999, 1000, 1001, 1002, 1003]
    assert seqs(ledger.read(after=2498)) == [2499, 2500]
    assert seqs(ledger.read(after=2500)) == []
    assert seqs(ledger.read(after=9999)) == []
    assert seqs(ledger.read(limit=0)) == []
    assert len(list(ledger.read(limit=1500))) == 1500
    assert len(list(ledger.read())) == 2500


def test_rows_are_the_records_in_field_order(ledger: Ledger) -> None:
    fill(ledger, 5)
    assert [Record(*row) for row in ledger.rows(1, 3)] == list(ledger.read(after=1, limit=3))


@pytest.mark.parametrize("first", [1, 3, 5, 0, -1])
def test_a_batch_that_does_not_follow_is_refused_with_both_numbers(
    ledger: Ledger, first: int
) -> None:
    run(ledger.append(entries(1, 3)))
    with pytest.raises(LedgerError, match=rf"record {first} does not follow 3"):
        run(ledger.append(entries(first, first)))
    assert ledger.last_seq == 3
    assert run(ledger.append(entries(4, 4))) == 4


def test_a_batch_with_a_gap_inside_is_refused_whole(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="record 4 does not follow 2"):
        run(ledger.append([entry(1), entry(2), entry(4)]))
    assert seqs(ledger.read()) == []


def test_appends_under_way_at_once_are_kept_in_order(ledger: Ledger) -> None:
    async def append_all() -> list[int]:
        return await asyncio.gather(*(ledger.append(entries(n, n + 1)) for n in range(1, 100, 2)))

    assert run(append_all()) == list(range(2, 101, 2))
    assert seqs(ledger.read()) == list(range(1, 101))


def test_the_history_of_a_job_is_all_its_records_and_no_others(ledger: Ledger) -> None:
    fill(ledger, 9000)
    assert seqs(ledger.history("j7")) == list(range(7, 9001, 10))
    assert ledger.history("j7")[3] == varied(37).record
    assert ledger.history("nobody") == []


def test_records_without_a_job_are_no_jobs_history(ledger: Ledger) -> None:
    run(ledger.append([entry(1, job=""), entry(2)]))
    assert ledger.history("") == []


def test_bodies_lie_beside_their_records(ledger: Ledger) -> None:
    body = Body("zss", (b"", b"\0\xff" * 5000, b"x"))
    run(ledger.append([Entry(record(1), body), Entry(record(2)), Entry(record(3), EMPTY)]))
    assert ledger.body(1) == body
    assert ledger.body(2) is None
    assert ledger.body(3) == EMPTY
    assert ledger.body(4) is None


def test_checkpoints_are_remembered_moved_and_forgotten(ledger: Ledger) -> None:
    fill(ledger, 10)
    ledger.checkpoint("spark", 4)
    ledger.checkpoint("ncl", 0)
    ledger.checkpoint("spark", 7)
    assert ledger.checkpoints() == {"spark": 7, "ncl": 0}
    ledger.forget_checkpoint("ncl")
    ledger.forget_checkpoint("nobody")
    assert ledger.checkpoints() == {"spark": 7}


@pytest.mark.parametrize("seq", [-1, 11])
def test_a_checkpoint_outside_the_ledger_is_refused(ledger: Ledger, seq: int) -> None:
    fill(ledger, 10)
    with pytest.raises(LedgerError, match=f"at {seq} is outside"):
        ledger.checkpoint("spark", seq)


def test_retention_keeps_the_newest_records(ledger: Ledger) -> None:
    fill(ledger, 12_000)
    assert run(ledger.retain(keep_records=10)) == 11_991
    assert (ledger.first_seq, ledger.last_seq) == (11_991, 12_000)
    assert seqs(ledger.read()) == list(range(11_991, 12_001))
    assert seqs(ledger.history("j5")) == [11_995]
    assert ledger.body(9) is None
    assert ledger.body(11_991) == varied(11_991).body
    assert run(ledger.append([varied(12_001)])) == 12_001


def test_retention_removes_what_is_older(ledger: Ledger) -> None:
    fill(ledger, 100)
    assert run(ledger.retain(before_at=1041.0)) == 41
    assert run(ledger.retain(before_at=1041.0)) == 41


def test_retention_removes_a_prefix_only_whatever_the_clocks_said(ledger: Ledger) -> None:
    run(ledger.append([entry(1, at=5.0), entry(2, at=50.0), entry(3, at=6.0)]))
    assert run(ledger.retain(before_at=10.0)) == 2


def test_a_record_goes_only_if_every_policy_lets_it_go(ledger: Ledger) -> None:
    fill(ledger, 100)
    assert run(ledger.retain(before_at=1041.0, keep_records=90)) == 11
    assert run(ledger.retain(before_at=1041.0, keep_records=10)) == 41


def test_retention_without_a_policy_removes_nothing(ledger: Ledger) -> None:
    fill(ledger, 10)
    assert run(ledger.retain()) == 1
    assert run(ledger.retain(needed=lambda record: False)) == 1


def test_retention_respects_every_checkpoint(ledger: Ledger) -> None:
    fill(ledger, 100)
    ledger.checkpoint("spark", 60)
    ledger.checkpoint("ncl", 30)
    assert run(ledger.retain(keep_records=0)) == 31
    ledger.forget_checkpoint("ncl")
    assert run(ledger.retain(keep_records=0)) == 61


def is_of_j3(record: Record) -> bool:
    return record.job == "j3"


def test_needed_records_are_pinned_and_the_records_around_them_go(pinning: Ledger) -> None:
    fill(pinning, 100)
    before = pinning.history("j3")
    assert run(pinning.retain(keep_records=50, needed=is_of_j3)) == 51
    assert seqs(pinning.pinned()) == [3, 13, 23, 33, 43]
    assert pinning.history("j3") == before
    assert pinning.body(3) == varied(3).body
    assert pinning.body(33) == varied(33).body
    assert pinning.body(6) is None
    assert seqs(pinning.read()) == list(range(51, 101))
    assert seqs(pinning.history("j4")) == [54, 64, 74, 84, 94]


def test_retention_goes_on_behind_a_pinned_record(pinning: Ledger) -> None:
    fill(pinning, 100)
    run(pinning.retain(keep_records=50, needed=is_of_j3))
    assert run(pinning.retain(keep_records=20, needed=is_of_j3)) == 81
    assert seqs(pinning.pinned()) == [3, 13, 23, 33, 43, 53, 63, 73]
    assert run(pinning.append(entries(101, 102))) == 102


def test_a_record_is_unpinned_when_it_is_no_longer_needed(pinning: Ledger) -> None:
    fill(pinning, 100)
    run(pinning.retain(keep_records=50, needed=is_of_j3))
    assert run(pinning.retain(keep_records=50, needed=lambda r: r.seq == 23)) == 51
    assert seqs(pinning.pinned()) == [23]
    assert pinning.body(3) is None
    run(pinning.retain(keep_records=50))
    assert pinning.pinned() == []
    assert seqs(pinning.history("j3")) == [53, 63, 73, 83, 93]


def test_a_pinned_record_without_a_job_has_no_history(pinning: Ledger) -> None:
    run(pinning.append([entry(1, job=""), entry(2, job="")]))
    run(pinning.retain(keep_records=1, needed=lambda record: True))
    assert seqs(pinning.pinned()) == [1]
    assert pinning.history("") == []


def test_everything_can_go_and_the_numbers_go_on(ledger: Ledger) -> None:
    fill(ledger, 20)
    assert run(ledger.retain(keep_records=0)) == 21
    assert (ledger.first_seq, ledger.last_seq) == (21, 20)
    assert list(ledger.read()) == []
    assert run(ledger.append(entries(21, 22))) == 22
    assert seqs(ledger.read()) == [21, 22]


def test_reading_what_was_removed_is_refused_not_skipped(ledger: Ledger) -> None:
    fill(ledger, 20)
    run(ledger.retain(keep_records=5))
    with pytest.raises(LedgerError, match="records 4 to 15 were removed by retention"):
        ledger.read(after=3)
    with pytest.raises(LedgerError, match="records 4 to 15"):
        ledger.rows(3, 1)
    assert seqs(ledger.read(after=15, limit=1)) == [16]


def test_a_reader_overtaken_by_retention_is_told(ledger: Ledger) -> None:
    fill(ledger, 5000)
    reading = ledger.read()
    assert next(reading).seq == 1
    run(ledger.retain(keep_records=5))
    with pytest.raises(LedgerError, match="were removed by retention"):
        list(reading)


def test_a_closed_ledger_refuses_everything(make: Make, tmp_path: Path) -> None:
    ledger = make(tmp_path)
    run(ledger.append(entries(1, 1)))
    run(ledger.close())
    run(ledger.close())
    for use in (
        lambda: run(ledger.append(entries(2, 2))),
        lambda: run(ledger.retain(keep_records=0)),
        lambda: list(ledger.read()),
        ledger.pinned,
        lambda: ledger.rows(0, 1),
        lambda: ledger.history("j1"),
        lambda: ledger.body(1),
        lambda: ledger.checkpoint("spark", 0),
        lambda: ledger.forget_checkpoint("spark"),
        ledger.checkpoints,
    ):
        with pytest.raises(LedgerError, match="the ledger is closed"):
            use()


@pytest.mark.parametrize(
    "odd",
    [
        record(1, at=float("nan")),
        record(1, submitted_at=float("nan")),
        record(1, priority=2**70),
        record(1, count=2**63),
        record(1, part=-(2**63) - 1),
        record(1, detail="\ud800"),
        record(1, task=7),
        record(1, count=True),
        record(1, deadline_at="soon"),
    ],
)
def test_what_cannot_be_stored_is_refused_and_harms_nothing(ledger: Ledger, odd: Record) -> None:
    with pytest.raises(LedgerError, match="record 1 "):
        run(ledger.append([Entry(odd)]))
    assert run(ledger.append(entries(1, 1))) == 1


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.integers(-(2**63), 2**63 - 1)
instants = st.floats(allow_nan=False)
contents = st.builds(
    Record,
    seq=st.just(0),
    at=instants | st.integers(0, 10**9),
    kind=st.sampled_from(Kind) | texts,
    job=texts,
    part=numbers,
    attempt=numbers,
    service=texts,
    task=texts,
    client=texts,
    worker=texts,
    peer=texts,
    principal=texts,
    dialect=texts,
    target=texts,
    state=texts,
    fault=texts,
    detail=texts,
    nbytes=numbers,
    digest=texts,
    priority=numbers,
    key=texts,
    terms=texts,
    submitted_at=instants,
    deadline_at=instants,
    count=numbers,
    strict=st.booleans(),
)
bodies = st.none() | st.builds(Body, texts, st.lists(st.binary(), max_size=3).map(tuple))


@pytest.mark.process
@given(batches=st.lists(st.lists(st.tuples(contents, bodies), max_size=4), max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
def test_any_record_and_body_comes_back_equal(
    make: Make, batches: list[list[tuple[Record, Body | None]]]
) -> None:
    with TemporaryDirectory() as folder:
        ledger = make(Path(folder))
        kept: list[Entry] = []
        for batch in batches:
            numbered = [
                Entry(_numbered(content, len(kept) + offset), body)
                for offset, (content, body) in enumerate(batch, 1)
            ]
            run(ledger.append(numbered))
            kept += numbered
        found = list(ledger.read())
        assert found == [each.record for each in kept]
        assert all(type(each.strict) is bool for each in found)
        assert [ledger.body(each.seq) for each in found] == [each.body for each in kept]
        for job in {each.job for each in found if each.job}:
            assert ledger.history(job) == [each for each in found if each.job == job]
        run(ledger.close())


def _numbered(content: Record, seq: int) -> Record:
    return Record(seq, *(getattr(content, name) for name in FIELDS[1:]))
