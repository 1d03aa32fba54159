"""Drafts of segments: the same in both processes; a writer that fails says why."""

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.ledger.entries import fill, run

from dragoman.ledger.base import LedgerError
from dragoman.ledger.export import Sealer
from dragoman.ledger.manifest import TEMPORARY, read_manifest, segment_name
from dragoman.ledger.memory import MemoryLedger
from dragoman.ledger.segment_writer import in_another_process, in_this_process
from dragoman.ledger.sqlite import SqliteLedger


def test_a_draft_has_a_name_of_its_own_and_the_entry_of_its_records(tmp_path: Path) -> None:
    ledger = MemoryLedger()
    fill(ledger, 4100)
    draft, segment = in_this_process(ledger)(tmp_path, 50, 4000)
    assert draft.name.startswith(segment_name(51, 4050))
    assert draft.name.endswith(TEMPORARY)
    assert segment.file == segment_name(51, 4050)
    assert pq.read_table(draft)["seq"].to_pylist() == list(range(51, 4051))


@pytest.mark.process
def test_another_process_writes_the_same_segment(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.db")
    fill(ledger, 3000)
    _, here = in_this_process(ledger)(tmp_path, 10, 2500)
    draft, there = in_another_process(ledger.path)(tmp_path, 10, 2500)
    assert there == here
    assert draft.parent == tmp_path
    run(ledger.close())


@pytest.mark.process
def test_a_sealer_gives_the_draft_of_another_process_its_name(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.db")
    fill(ledger, 30)
    sealer = Sealer(ledger, tmp_path / "sealed", write=in_another_process(ledger.path))
    sealer.seal_once(min_records=1)
    found = sorted(each.name for each in (tmp_path / "sealed").iterdir())
    assert found == ["manifest.json", segment_name(1, 30)]
    assert read_manifest(tmp_path / "sealed").last == 30
    run(ledger.close())


@pytest.mark.process
def test_a_process_that_cannot_write_says_why(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.db")
    fill(ledger, 3)
    write = in_another_process(ledger.path)
    with pytest.raises(LedgerError, match=r"writes segments failed: .*No such file"):
        write(tmp_path / "missing", 0, 3)
    run(ledger.close())


@pytest.mark.process
def test_sealing_in_another_process_loads_no_parquet_library_into_the_broker() -> None:
    program = (
        "import sys, dragoman.server.server, dragoman.server.ledger_maintenance;"
        "sys.exit(str([m for m in ('pyarrow', 'numpy', 'pandas') if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.stderr.decode().strip() == "[]"
