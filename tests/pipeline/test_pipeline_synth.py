import json
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dragoman.ledger.manifest import Manifest, SealedSegment, read_manifest
from dragoman.ledger.segments import SEGMENT_SCHEMA
from dragoman.model.record import VERSION
from dragoman.pipeline.synth import synthesise
from dragoman.pipeline.synth_plants import PLANTS


def read(folder: Path) -> pa.Table:
    listed = read_manifest(folder).segments
    return pa.concat_tables([pq.read_table(folder / segment.file) for segment in listed])


def columns(table: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    return [*zip(*(table[name].to_pylist() for name in names), strict=True)]


def test_a_ledger_has_every_number_in_order_of_time(tmp_path: Path) -> None:
    done = synthesise(tmp_path, 30_000, seed=2, segment_rows=8_000)
    table = read(tmp_path)
    assert (done.records, done.segments) == (30_000, 4)
    assert table["seq"].to_pylist() == [*range(1, 30_001)]
    instants = table["at"].cast(pa.int64()).to_numpy()
    assert (instants[1:] >= instants[:-1]).all()
    wanted = [(field.name, field.type) for field in SEGMENT_SCHEMA]
    assert [(field.name, field.type) for field in table.schema] == wanted


def test_the_manifest_describes_each_segment(tmp_path: Path) -> None:
    synthesise(tmp_path, 5_000, segment_rows=2_000)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    said = manifest["segments"]
    # The keys of the broker's own manifests, neither more nor fewer.
    assert {*manifest} == {f.name for f in fields(Manifest)}
    assert {*said[0]} == {f.name for f in fields(SealedSegment)}
    assert said[0]["schema_version"] == VERSION
    assert [(s["first"], s["last"], s["rows"]) for s in said] == [
        (1, 2_000, 2_000),
        (2_001, 4_000, 2_000),
        (4_001, 5_000, 1_000),
    ]
    assert all((tmp_path / s["file"]).stat().st_size == s["bytes"] for s in said)


def test_the_same_seed_gives_the_same_ledger_and_another_another(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        synthesise(tmp_path / name, 3_000, seed=seed)
    a, b, c = (read(tmp_path / name) for name in "abc")
    assert a.equals(b)
    assert not a.equals(c)


def test_every_course_occurs_and_jobs_end_once(tmp_path: Path) -> None:
    synthesise(tmp_path, 60_000, seed=4, rate=6.0)
    table = read(tmp_path)
    kinds = Counter(table["kind"].to_pylist())
    wanted = {"submitted", "refused", "bound", "dispatched", "accepted", "progress", "requeued"}
    wanted |= {"forwarded", "gathered", "ended", "cancel_asked", "joined", "left", "owns"}
    assert wanted | {"started"} <= set(kinds)
    ended = Counter(job for kind, job in columns(table, "kind", "job") if kind == "ended")
    assert set(ended.values()) == {1}
    states = {s for kind, s in columns(table, "kind", "state") if kind == "ended"}
    assert states == {"succeeded", "failed", "expired", "cancelled", "dead"}


def test_an_unknown_fault_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown faults"):
        synthesise(tmp_path, 100, plants=["gremlins"])


@pytest.mark.parametrize("name", [*PLANTS])
def test_a_planted_fault_changes_only_the_probe_service(tmp_path: Path, name: str) -> None:
    synthesise(tmp_path / "with", 6_000, plants=[name])
    synthesise(tmp_path / "without", 6_000)
    found = {}
    for which in ("with", "without"):
        table = read(tmp_path / which)
        rows = columns(table, "at", "kind", "job", "worker", "service")
        found[which] = [row[:4] for row in rows if row[4] != "probe"]
    fewer = min(len(rows) for rows in found.values())
    assert found["with"][:fewer] == found["without"][:fewer]
    assert fewer > 1_000
