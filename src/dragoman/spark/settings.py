"""Settings of a Spark worker, from a TOML file: data, pipelines, limits.

    tables = "dragoman-data/tables"        # the tables of `dragoman pipeline`

    [data.orders]
    path = "orders"                        # relative to this file
    format = "parquet"

    [pipelines.enrich]
    inputs.orders = "orders"               # a table, by name
    outputs.scored = { path = "out/scored" }

    [[pipelines.enrich.steps]]
    name = "recent"
    sql = "select * from orders where day >= :since"

    [[pipelines.enrich.steps]]
    name = "scored"
    call = { rows = "recent", service = "risk", task = "score", key = ["id"], returns = "double" }

An unknown name is an error.
"""

import tomllib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class SparkSection(BaseModel):
    """A table of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Data(SparkSection):
    """Files that are offered as a table."""

    path: str
    format: Literal["parquet", "csv", "json", "orc", "text"] = "parquet"
    #: Spark's options of the format, such as `header`.
    options: dict[str, str] = Field(default_factory=dict)
    #: The schema in Spark's DDL; read from the files if empty.
    columns: str = ""


class CallStep(SparkSection):
    """A step that calls a service for every row."""

    #: The step or input with the rows.
    rows: str
    service: str
    task: str = ""
    #: The broker; the worker's own if empty.
    url: str = ""
    columns: list[str] | None = None
    key: list[str] | None = None
    returns: str | None = None
    into: str = "answer"
    timeout: float = Field(default=600.0, gt=0)
    window: int = Field(default=128, ge=1)
    rows_per_call: int = Field(default=1, ge=1)
    at_least_once: bool = False
    #: Where executors find their credentials; the setting for all steps if empty.
    credentials: str = ""


class PipelineStep(SparkSection):
    """One step: a query, a Python function, or calls of a service."""

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    sql: str = ""
    #: `module:function`, called with all frames by name and the parameters.
    python: str = ""
    call: CallStep | None = None

    @model_validator(mode="after")
    def _is_one_thing(self) -> "PipelineStep":
        if sum((bool(self.sql), bool(self.python), self.call is not None)) != 1:
            raise ValueError(f"step {self.name!r} needs exactly one of sql, python and call")
        return self


class Output(SparkSection):
    """Where a result goes. A complete result replaces the old one, or is appended to it."""

    path: str
    format: Literal["parquet", "csv", "json", "orc"] = "parquet"
    options: dict[str, str] = Field(default_factory=dict)
    mode: Literal["replace", "append"] = "replace"


class Pipeline(SparkSection):
    """A registered pipeline."""

    description: str = ""
    #: Names and defaults of the parameters that SQL binds as `:name`.
    parameters: dict[str, object] = Field(default_factory=dict)
    #: Tables or files by their name within the pipeline.
    inputs: dict[str, str | Data] = Field(default_factory=dict)
    steps: list[PipelineStep] = Field(default_factory=list)
    outputs: dict[str, Output] = Field(min_length=1)

    @model_validator(mode="after")
    def _is_connected(self) -> "Pipeline":
        known = set(self.inputs)
        for step in self.steps:
            if step.name in known:
                raise ValueError(f"the name {step.name!r} is used twice; rename the step")
            if step.call is not None and step.call.rows not in known:
                raise ValueError(
                    f"step {step.name!r} uses the rows of {step.call.rows!r}, which is neither "
                    f"an input nor an earlier step"
                )
            known.add(step.name)
        if missing := set(self.outputs) - known:
            raise ValueError(f"no input or step is called {', '.join(sorted(missing))}")
        return self


class SparkLimits(SparkSection):
    """Limits of queries and results."""

    #: Maximum in a reply; a larger result is a file.
    reply_rows: int = Field(default=1_000, ge=0)
    reply_bytes: int = Field(default=256 * 1024, ge=0)
    #: Maximum of a result; a larger one is refused.
    rows: int = Field(default=1_000_000, ge=1)
    bytes: int = Field(default=256 * 1024 * 1024, ge=1)
    #: Largest constant of a query: a literal, or what Spark computes before it runs.
    constant_bytes: int = Field(default=1024 * 1024, ge=1024)
    #: Maximum seconds of a query or a pipeline; a job's own deadline may be earlier.
    seconds: float = Field(default=600.0, gt=0)


class ResultsSection(SparkSection):
    """Where large results are stored, and for how long."""

    #: A folder of the file service: `nf://drop/spark`. If empty, large results are refused.
    url: str = ""
    #: The same folder on this machine. If empty, files are uploaded through the file service.
    folder: str = ""
    #: Maximum age of a file in seconds; 0 for no limit.
    keep: float = Field(default=24 * 3600.0, ge=0)
    #: Maximum bytes of all files together; the oldest go first. 0 for no limit.
    keep_bytes: int = Field(default=10 * 1024**3, ge=0)


class SparkSettings(SparkSection):
    """All settings of a Spark worker."""

    #: The folder of the tables of `dragoman pipeline`; empty for none.
    tables: str = ""
    data: dict[str, Data] = Field(default_factory=dict)
    pipelines: dict[str, Pipeline] = Field(default_factory=dict)
    limits: SparkLimits = SparkLimits()
    results: ResultsSection = ResultsSection()
    #: Where *executors* find their credentials in steps that call services: the path of a file
    #: that each of them has, or env:NAME. If empty, DRAGOMAN_KEY_FILE of the executor, if set.
    credentials: str = ""
    #: Whether only queries are allowed.
    read_only: bool = True
    #: Seconds between two checks for new data and new versions of tables.
    refresh: float = Field(default=5.0, ge=0)


def load(file: Path) -> SparkSettings:
    """Read a settings file. Its relative paths start at its folder. Raises ValueError."""
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
        return with_absolute_paths(SparkSettings.model_validate(values), file.resolve().parent)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"{file}: {error}") from None


def with_absolute_paths(settings: SparkSettings, base: Path) -> SparkSettings:
    """Return the settings with relative paths joined to `base`."""
    return settings.model_copy(
        update={
            "tables": _at(settings.tables, base),
            "data": {name: _data(each, base) for name, each in settings.data.items()},
            "pipelines": {name: _pipeline(each, base) for name, each in settings.pipelines.items()},
            "results": settings.results.model_copy(
                update={"folder": _at(settings.results.folder, base)}
            ),
        }
    )


def _pipeline(pipeline: Pipeline, base: Path) -> Pipeline:
    inputs = {n: _data(i, base) if isinstance(i, Data) else i for n, i in pipeline.inputs.items()}
    outputs = {
        name: each.model_copy(update={"path": _at(each.path, base)})
        for name, each in pipeline.outputs.items()
    }
    return pipeline.model_copy(update={"inputs": inputs, "outputs": outputs})


def _data(data: Data, base: Path) -> Data:
    return data.model_copy(update={"path": _at(data.path, base)})


def _at(path: str, base: Path) -> str:
    return path if not path or "://" in path else str(base / path)
