"""`dragoman spark-worker`: options and file together, and one real run."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.interop.harness import Fleet, until

from dragoman import Client
from dragoman.cli.spark import merged


def test_options_win_over_the_file_and_paths_are_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "etc").mkdir()
    file = tmp_path / "etc" / "spark.toml"
    file.write_text(
        'tables = "t"\nread_only = true\n[data.a]\npath = "a"\n[results]\nurl = "nf://a"'
    )
    plain = merged(file, "", [], "", "", False)
    assert plain.tables == str(tmp_path / "etc" / "t")
    assert plain.results.url == "nf://a"
    said = merged(file, "mine", ["b=x/b.csv", "a=a.json"], "nf://b", "shared", True)
    assert said.tables == str(tmp_path / "mine")
    assert said.data["a"].path == str(tmp_path / "a.json")
    assert said.data["a"].format == "json"
    assert said.data["b"].options["header"] == "true"
    assert said.results.folder == str(tmp_path / "shared")
    assert not said.read_only


def test_where_executors_find_their_key_and_how_long_results_stay(tmp_path: Path) -> None:
    file = tmp_path / "spark.toml"
    file.write_text('credentials = "env:KEY"\n[results]\nurl = "nf://a"\nkeep = 60\n')
    plain = merged(file, "", [], "", "", False)
    assert (plain.credentials, plain.results.keep) == ("env:KEY", 60)
    said = merged(file, "", [], "nf://b", "", False, "/etc/there.key")
    assert said.credentials == "/etc/there.key", "it is not a path of this machine"
    assert (said.results.url, said.results.keep) == ("nf://b", 60)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--table", "nothing"), "--table takes NAME=PATH, not 'nothing'"),
        (("--config", "nowhere.toml"), "nowhere.toml"),
        (("--conf", "x"), "--conf takes name=value, not 'x'"),
    ],
)
def test_wrong_usage_is_reported_before_spark_starts(
    run: Run, words: tuple[str, ...], told: str
) -> None:
    code, _, err = run("spark-worker", *words)
    assert code in (1, 2)
    assert told in err


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_worker_process_answers_and_ends_on_a_signal(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    try:
        broker = fleet.broker(settings="[nfp]\npatience = 200")
        (tmp_path / "people.csv").write_text("name,age\nAda,36\nBo,7\n")
        table = ["--table", f"people={tmp_path / 'people.csv'}"]
        small = ["--master", "local[1]", "--memory", "512m"]
        worker = fleet.dragoman("spark-worker", "--url", broker.url(), *table, *small)
        with Client(broker.url()) as client:
            query = "select sum(age) as total from people where name <> :not"
            call = {"query": query, "args": {"not": "Bo"}}
            found = client.call("spark", "sql", timeout=200, **call)
        assert json.loads(json.dumps(found["rows"])) == [[36]]
        assert worker.stop(at_most=60) == 0
        until(lambda: not worker.is_running, "the worker has ended")
    finally:
        fleet.end()
