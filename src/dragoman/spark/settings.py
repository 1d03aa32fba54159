"""What a Spark worker offers, as a TOML file says it: data, pipelines, limits.

    tables = "dragoman-data/tables"        # the pipeline's, if there are any

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

A misspelt name is an error, not a default.
"""

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class SparkSection(BaseModel):
    """A part of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Data(SparkSection):
    """Files that are a table."""

    path: str
    format: Literal["parquet", "csv", "json", "orc", "text"] = "parquet"
    #: Spark's own options of the format, such as `header`.
    options: dict[str, str] = Field(default_factory=dict)
    #: The columns, in Spark's own words; read from the files if empty.
    columns: str = ""


class CallStep(SparkSection):
    """A step that has a service of the fabric answer every row."""

    #: The step or input whose rows are asked about.
    rows: str
    service: str
    task: str = ""
    #: Where to ask; the worker's own broker if empty.
    url: str = ""
    columns: list[str] | None = None
    key: list[str] | None = None
    returns: str | None = None
    into: str = "answer"
    timeout: float = Field(default=600.0, gt=0)
    window: int = Field(default=128, ge=1)
    rows_per_call: int = Field(default=1, ge=1)
    at_least_once: bool = False
    #: Where executors find whom they speak for; as the settings say for all steps if empty.
    credentials: str = ""


class PipelineStep(SparkSection):
    """One step: a query, a Python function, or calls of a service. Its result has its name."""

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    sql: str = ""
    #: `module:function`, called with the frames by name and the parameters.
    python: str = ""
    call: CallStep | None = None

    @model_validator(mode="after")
    def _is_one_thing(self) -> "PipelineStep":
        if sum((bool(self.sql), bool(self.python), self.call is not None)) != 1:
            raise ValueError(f"step {self.name!r} must have one of sql, python and call")
        return self


class Output(SparkSection):
    """Where a result goes. It replaces what was there, when it is whole; or is added to it."""

    path: str
    format: Literal["parquet", "csv", "json", "orc"] = "parquet"
    options: dict[str, str] = Field(default_factory=dict)
    mode: Literal["replace", "append"] = "replace"


class Pipeline(SparkSection):
    """A registered pipeline."""

    description: str = ""
    #: Names and defaults of what may be bound in SQL as `:name`.
    parameters: dict[str, Any] = Field(default_factory=dict)
    #: Names within the pipeline and the tables they are, or files.
    inputs: dict[str, str | Data] = Field(default_factory=dict)
    steps: list[PipelineStep] = Field(default_factory=list)
    outputs: dict[str, Output] = Field(min_length=1)

    @model_validator(mode="after")
    def _is_connected(self) -> "Pipeline":
        known = set(self.inputs)
        for step in self.steps:
            if step.name in known:
                raise ValueError(f"{step.name!r} is there twice")
            if step.call is not None and step.call.rows not in known:
                raise ValueError(
                    f"step {step.name!r} asks about {step.call.rows!r}, which is not there yet"
                )
            known.add(step.name)
        if missing := set(self.outputs) - known:
            raise ValueError(f"no step makes {', '.join(sorted(missing))}")
        return self


class SparkLimits(SparkSection):
    """How much a client gets."""

    #: What comes in the reply; more comes as a file.
    reply_rows: int = Field(default=1_000, ge=0)
    reply_bytes: int = Field(default=256 * 1024, ge=0)
    #: More than this is refused.
    rows: int = Field(default=1_000_000, ge=1)
    bytes: int = Field(default=256 * 1024 * 1024, ge=1)
    #: Seconds that a query or a pipeline may run; a job's own deadline may be nearer.
    seconds: float = Field(default=600.0, gt=0)


class ResultsSection(SparkSection):
    """Where large results go."""

    #: A folder of the file service: `nf://drop/spark`. Empty: nowhere, they are refused.
    url: str = ""
    #: The same folder as this machine sees it; empty: files are put through the file service.
    folder: str = ""
    #: Seconds for which a file is kept at least, unless there are too many; 0: for ever.
    keep: float = Field(default=24 * 3600.0, ge=0)
    #: Bytes of all files together; above that the oldest go. 0: as many as fit on the disk.
    keep_bytes: int = Field(default=10 * 1024**3, ge=0)


class SparkSettings(SparkSection):
    """Everything."""

    #: The pipeline's tables; empty: none.
    tables: str = ""
    data: dict[str, Data] = Field(default_factory=dict)
    pipelines: dict[str, Pipeline] = Field(default_factory=dict)
    limits: SparkLimits = SparkLimits()
    results: ResultsSection = ResultsSection()
    #: Where *executors* find whom they speak for in steps that call services: the path of a file
    #: that each of them has, or env:NAME. Empty: DRAGOMAN_KEY_FILE there, if it is set.
    credentials: str = ""
    #: Only queries are run.
    read_only: bool = True
    #: Seconds after which new data and new versions of tables are looked for.
    refresh: float = Field(default=5.0, ge=0)


def load(file: Path) -> SparkSettings:
    """Read a file; relative paths in it are relative to its folder. Raises ValueError."""
    try:
        said = tomllib.loads(file.read_text(encoding="utf-8"))
        return settled(SparkSettings.model_validate(said), file.resolve().parent)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"{file}: {error}") from None


def settled(settings: SparkSettings, base: Path) -> SparkSettings:
    """Return the settings with every path complete."""
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
