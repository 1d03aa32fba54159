"""A secret that gets away is found wherever it went, and the run fails without showing it."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.canaries import HOLDERS, Canaries, Heap, Leak, is_holder, summary
from tests.canary_watch import LEAKED, Canary, watch_of

from dragoman.sdk.credentials import write_credentials
from dragoman.sdk.issuing import new_authority, new_credentials

ROOT = Path(__file__).resolve().parents[1]

#: Tests that each lose a secret in another place, and two that do not.
CARELESS = """
import logging, os, subprocess, sys, tempfile, time
from pathlib import Path
import pytest, zmq

def test_prints(canary):
    print("password is", canary("printed"))

def test_prints_where_the_test_takes_it_away(canary, capsys):
    print(canary("taken"))
    capsys.readouterr()

def test_logs(canary):
    logging.getLogger("x").warning("with %s", canary("logged"))

def test_writes(canary, tmp_path):
    (tmp_path / "ledger.sqlite").write_bytes(b"\\0\\xff" * 10 + canary("written").encode() + b"\\0")

def test_removes_what_it_wrote(canary):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "ready.json").write_text(canary("removed"))

def test_starts_a_process_with_it(canary):
    subprocess.run([sys.executable, "-c", "", "--token=" + canary("argument")], check=True)

def test_gives_it_to_a_process(canary):
    subprocess.run(["true"], env={**os.environ, "X": canary("environment")}, check=True)

def test_has_a_process_that_prints(canary, tmp_path):
    (tmp_path / "own.key").write_text(canary("read back"))
    subprocess.run(["cat", str(tmp_path / "own.key")], capture_output=True, check=True)

def test_lets_another_process_hand_it_on(canary, tmp_path):
    (tmp_path / "own.key").write_text(canary("grandchild"))
    shell = subprocess.Popen(["sh", "-c", 'sh -c "read x; : end" $(cat own.key); :'],
                             cwd=tmp_path, stdin=subprocess.PIPE)
    while not any(b"canary" in line for line in lines_below(shell.pid)):
        time.sleep(0.01)
    yield_to_teardown.append(shell)

yield_to_teardown = []

@pytest.fixture(autouse=True)
def end():
    yield
    while yield_to_teardown:
        yield_to_teardown.pop().communicate(b"\\n")

def lines_below(pid):
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield Path(f"/proc/{child}/cmdline").read_bytes()

def test_makes_a_key_and_writes_it_down(tmp_path):
    (tmp_path / "notes.txt").write_bytes(zmq.curve_keypair()[1])

def test_keeps_it(canary, tmp_path):
    (tmp_path / "own.key").write_text(canary("kept"))

@pytest.mark.shows_secrets("it is what it does")
def test_shows_it_to_its_owner(canary):
    print(canary("shown"))
"""


def run_inner(folder: Path, text: str) -> "subprocess.CompletedProcess[str]":
    test = folder / "test_inner.py"
    test.write_text(text)
    words = ("-p", "tests.canary_watch", "-p", "no:cacheprovider", "-c", os.devnull, "-q")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words, f"--basetemp={folder / 'inner'}", str(test)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
        check=False,
    )


@pytest.mark.process
def test_a_leak_fails_the_run_wherever_it_is_and_only_where_it_is_one(tmp_path: Path) -> None:
    done = run_inner(tmp_path, CARELESS)
    found = {
        line.removeprefix("LEAKED ").partition(" in ")[0]
        for line in done.stdout.splitlines()
        if line.startswith("LEAKED ")
    }
    assert found == {
        *("printed", "taken", "logged", "written", "removed", "argument", "environment"),
        *("read back", "grandchild", "CURVE key"),
    }, done.stdout
    assert done.returncode == LEAKED
    assert "LEAKED written in " in done.stdout
    assert "ledger.sqlite at byte 20\n" in done.stdout
    assert "LEAKED argument in the arguments of a process of " in done.stdout
    assert "canary-" not in done.stdout, "it is named, not shown"
    assert "12 passed" in done.stdout, "the tests themselves are well"


@pytest.mark.process
def test_secrets_that_another_process_made_are_known_from_its_files(tmp_path: Path) -> None:
    made, _ = new_credentials(
        "anna", "x" * 40, new_authority("test"), "drgt_ab_" + "0123456789" * 3
    )
    write_credentials(tmp_path / "anna.key", made)
    for number, secret in enumerate((made.secret, made.token, made.seed, made.key.splitlines()[2])):
        folder = tmp_path / "elsewhere" / str(number)
        folder.mkdir(parents=True)
        canaries = Canaries()
        canaries.harvest(tmp_path)
        assert canaries.search(tmp_path) == []
        (folder / "log").write_text(f"with {secret}.")
        assert [leak.offset for leak in canaries.search(folder)] == [5]
        (folder / "log").unlink()


@pytest.mark.process
def test_what_is_compressed_in_a_segment_is_found(tmp_path: Path) -> None:
    # Known to this search only, so that the real one does not find it.
    canaries, secret = Canaries(), os.urandom(20).hex()
    canaries.add("nkey", secret)
    path = tmp_path / "segments" / "1.parquet"
    path.parent.mkdir()
    table = pa.table({"detail": [None, f"used {secret}"], "body": [b"", b"\xff"]})
    pq.write_table(table, path, compression="zstd")
    heap = Heap()
    heap.put_segments(tmp_path)
    (leak,) = heap.search(canaries)
    assert (leak.kind, leak.place) == ("nkey", f"{path} (string)")
    heap.close()


@pytest.mark.process
def test_offsets_in_a_heap_are_those_of_what_was_said() -> None:
    canaries, heap = Canaries(), Heap()
    canaries.add("token", "abcdefgh01234567")
    for place in ("first", "second"):
        heap.put(place, b"12345abcdefgh01234567")
    assert sorted(heap.search(canaries)) == [Leak("token", "first", 5), Leak("token", "second", 5)]
    heap.close()


@pytest.mark.parametrize("dull", ["short", "a" * 40, "abab" * 10])
def test_what_would_be_found_by_chance_is_not_looked_for(dull: str) -> None:
    canaries = Canaries()
    canaries.add("token", dull)
    assert canaries.count == 0


def test_a_leak_is_said_once_and_without_the_secret() -> None:
    leak = Leak("token", "broker.log", 7)
    assert summary([leak, leak]) == ["token in broker.log at byte 7"]


def test_only_files_for_secrets_may_hold_them() -> None:
    assert is_holder("alice.key")
    assert is_holder("broker.key_secret")
    for name in ("ledger.sqlite", "registry.json", "broker.log", "ready.json", "dragoman.toml"):
        assert not is_holder(name)
    assert all(HOLDERS.values())


def test_every_run_is_watched(canary: Canary, pytestconfig: pytest.Config) -> None:
    before = watch_of(pytestconfig).canaries.count
    assert canary("token") != canary("token")
    assert watch_of(pytestconfig).canaries.count == before + 2


def test_a_segment_that_was_spoilt_stops_no_search(tmp_path: Path) -> None:
    spoilt = tmp_path / "segments" / "1.parquet"
    spoilt.parent.mkdir()
    spoilt.write_bytes(b"PAR1 and no more")
    heap = Heap()
    heap.put_segments(tmp_path)
    assert heap.search(Canaries()) == []
    heap.close()
