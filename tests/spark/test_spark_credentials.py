"""Executors prove who they are with what they have; only where it is travels to them."""

import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.interop.secured import SecuredSite
from tests.spark.test_spark_call import answers, numbers

from dragoman import Client, Worker
from dragoman.model.content import Call
from dragoman.sdk.credentials import NONE, Credentials, write_credentials
from dragoman.sdk.files import Files
from dragoman.security.registry import KeyRegistry
from dragoman.spark import call_service
from dragoman.spark.credentials import (
    CredentialsMissing,
    file_of,
    open_credentials,
    reference,
    stamp_of,
)
from dragoman.spark.executor_connection import (
    CallTerms,
    NoConnection,
    close_connections,
    connection_to,
)
from dragoman.spark.pipeline_run import PipelineRun
from dragoman.spark.settings import Pipeline, SparkSettings
from dragoman.spark.worker import make_worker
from dragoman.testing.harness import LocalBroker


@pytest.fixture(autouse=True)
def no_credentials_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRAGOMAN_KEY_FILE", raising=False)


def test_secrets_themselves_do_not_travel() -> None:
    with pytest.raises(TypeError, match="give the path of a file that each executor has"):
        reference(Credentials(token="t"))  # type: ignore[arg-type]
    assert reference(Path("/etc/spark.key")) == "/etc/spark.key"
    assert reference(None) == ""


def test_a_reference_is_a_path_or_a_variable_that_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert open_credentials("") == NONE
    made = Credentials(token="some token")
    path = tmp_path / "spark.key"
    write_credentials(path, made)
    monkeypatch.setenv("SPARK_KEY", str(path))
    assert open_credentials(str(path)) == open_credentials("env:SPARK_KEY") == made
    monkeypatch.setenv("DRAGOMAN_KEY_FILE", str(path))
    assert file_of("") == path
    before = stamp_of("env:SPARK_KEY")
    write_credentials(path, Credentials(token="another token"))
    assert stamp_of("env:SPARK_KEY") != before


def test_what_an_executor_has_not_is_said_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(
        CredentialsMissing, match=r"executor .*: the environment variable NOT_SET_HERE is not set"
    ):
        open_credentials("env:NOT_SET_HERE")
    with pytest.raises(CredentialsMissing, match=r"executor .*nowhere.key: No such file"):
        open_credentials(str(tmp_path / "nowhere.key"))
    open_to_all = tmp_path / "open.key"
    write_credentials(open_to_all, Credentials(token="t"))
    open_to_all.chmod(0o644)
    with pytest.raises(CredentialsMissing, match="chmod 600"):
        open_credentials(str(open_to_all))


def test_without_credentials_every_call_has_the_same_definite_fault() -> None:
    connection = connection_to("nfp://127.0.0.1:9", "env:NOT_SET_HERE")
    assert isinstance(connection, NoConnection)
    (fault,) = connection.call_all([("a", Call("t", ()))], CallTerms("s"))
    assert (fault.code, fault.is_definite) == ("no_credentials", True)


class SecuredBroker:
    """A secured broker with a service, and what clients of it may be given."""

    def __init__(self, broker: LocalBroker, house: SecuredSite, registry: KeyRegistry) -> None:
        self.broker = broker
        self._house = house
        self._registry = registry

    def key(self, name: str, *roles: str) -> tuple[Path, Credentials]:
        token = self._registry.new_token(name, now=time.time(), roles=roles)
        path, made, keys = self._house.peer(name, token)
        for key in keys:
            self._registry.add(key, name, now=time.time(), roles=roles)
        return path, made

    def url(self, dialect: str) -> str:
        return self.broker.endpoints["http"] if dialect == "http" else self.broker.url(dialect)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    folder = tmp_path_factory.mktemp("secured-spark")
    house, registry = SecuredSite(folder / "house"), KeyRegistry.open(folder / "registry.json")
    security = {"enabled": True, "registry": registry.path}
    (folder / "drop").mkdir()
    files = {"roots": {"drop": folder / "drop"}, "writable": ["drop"]}
    with house.broker("nfp", "http", security=security, files=files) as broker:
        secured = SecuredBroker(broker, house, registry)
        key, _ = secured.key("wanda", "worker")
        worker = Worker(broker.url("nfp"), "scoring", own_process_beats=False, credentials=key)
        worker.task(lambda x: 2 * x, name="double")
        with worker:
            yield secured
        close_connections()


def test_a_replaced_file_makes_a_new_connection(secured: SecuredBroker, tmp_path: Path) -> None:
    _, made = secured.key("nora", "submitter")
    path = tmp_path / "nora.key"
    write_credentials(path, made.with_server("0" * 40))
    url, calls = secured.url("nfp"), [("renewed", Call("double", (), {"x": 4}, timeout=20.0))]
    (fault,) = connection_to(url, str(path)).call_all(calls, CallTerms("scoring", timeout=20))
    assert fault.code == "refused"
    write_credentials(path, made)
    assert connection_to(url, str(path)).call_all(calls, CallTerms("scoring", timeout=20)) == [8]


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("dialect", ["nfp", "http"])
def test_a_secured_broker_answers_rows_whose_executors_prove_themselves(
    spark: SparkSession, secured: SecuredBroker, dialect: str
) -> None:
    path, made = secured.key(f"sue-{dialect}", "submitter")
    rows, url = numbers(spark, 20), secured.url(dialect)
    frame = call_service(
        rows, url, "scoring", "double", returns="int", timeout=30, credentials=path
    )
    assert {x: a["value"] for x, a in answers(frame).items()} == {n: 2 * n for n in range(20)}
    plan = str(frame._jdf.queryExecution().toString())
    assert made.secret not in plan


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_without_credentials_every_row_has_the_reason(
    spark: SparkSession, secured: SecuredBroker, tmp_path: Path
) -> None:
    def faults(**options: Any) -> set[tuple[str, str]]:
        url = secured.url("nfp")
        frame = call_service(numbers(spark, 4), url, "scoring", "double", timeout=5, **options)
        return {(a["fault"]["code"], a["fault"]["message"]) for a in answers(frame).values()}

    ((code, words),) = faults()
    assert (code, "wants CURVE" in words) == ("refused", True)
    ((code, words),) = faults(credentials=tmp_path / "elsewhere.key")
    assert (code, "elsewhere.key: No such file" in words) == ("no_credentials", True)
    viewer, _ = secured.key("vera", "viewer")
    ((code, words),) = faults(credentials=viewer)
    assert (code, "submit" in words) == ("denied", True)


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_steps_of_a_pipeline_prove_themselves_too(
    spark: SparkSession, secured: SecuredBroker, tmp_path: Path
) -> None:
    path, _ = secured.key("pia", "submitter")
    (tmp_path / "in.json").write_text('{"x": 1}\n{"x": 2}\n')
    call = {"rows": "n", "service": "scoring", "task": "double", "returns": "int"}
    pipeline = Pipeline.model_validate(
        {
            "inputs": {"n": {"path": str(tmp_path / "in.json"), "format": "json"}},
            "steps": [{"name": "asked", "call": call}],
            "outputs": {"asked": {"path": str(tmp_path / "out")}},
        }
    )
    run = PipelineRun(spark.newSession(), pipeline, {}, "run-1", secured.url("nfp"), str(path))
    assert run.run()["asked"]["rows"] == 2
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((row["x"], row["answer"]["value"]) for row in found) == [(1, 2), (2, 4)]


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_spark_worker_proves_itself_and_puts_its_results(
    spark: SparkSession, secured: SecuredBroker, tmp_path: Path
) -> None:
    own, _ = secured.key("spark-1", "worker", "operator")
    settings = SparkSettings.model_validate(
        {"limits": {"reply_rows": 5}, "results": {"url": "nf://drop"}}
    )
    url = secured.url("nfp")
    worker, tasks = make_worker(url, "sql", spark, settings, name="spark-1", credentials=own)
    asks, _ = secured.key("sam", "submitter")
    with worker, Client(url, credentials=asks) as client:
        found = client.call("sql", "sql", "select id from range(50)", timeout=120)
        copy = Files(client).fetch(found["file"], tmp_path / "copy.parquet")
    tasks.close()
    assert found["until"] > "2026"
    assert copy.stat().st_size == found["bytes"]


@pytest.mark.process
def test_what_goes_to_executors_has_no_secret_in_it(secured: SecuredBroker) -> None:
    import pyarrow as pa

    from dragoman.spark.call import ServiceCaller

    path, made = secured.key("paul", "submitter")
    asking = ServiceCaller(
        "nfp://x", "t", "r", CallTerms("s"), pa.int32(), "a", 1, credentials=reference(path)
    )
    closure = pickle.dumps(asking)
    assert str(path).encode() in closure
    for secret in (made.secret, made.token, made.seed):
        assert secret.encode() not in closure
