"""One run of a registered pipeline: inputs, steps, outputs.

Steps are lazy, as Spark is. Steps that call services are cached for the rest of the run. Outputs
are written beside their path and moved there when they are complete. So a run that fails or is
cancelled leaves the old output.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from dragoman.spark.call import call_service
from dragoman.spark.guard import check_plan, parse
from dragoman.spark.settings import CallStep, Data, Output, Pipeline, PipelineStep
from dragoman.spark.views import read_data

#: Called with the name of each step that begins.
OnStep = Callable[[str], None]


class PipelineRun:
    """One run of one pipeline, in a session of its own."""

    def __init__(
        self,
        session: SparkSession,
        pipeline: Pipeline,
        parameters: Mapping[str, object],
        run: str,
        broker_url: str,
        credentials: str = "",
    ) -> None:
        unknown = set(parameters) - set(pipeline.parameters)
        if unknown:
            known = ", ".join(pipeline.parameters) or "none"
            names = ", ".join(sorted(unknown))
            raise ValueError(f"unknown parameter {names}; known parameters: {known}")
        self._session = session
        self._pipeline = pipeline
        self._parameters = {**pipeline.parameters, **parameters}
        self._run = run
        self._broker_url = broker_url
        #: Where executors find their credentials.
        self._credentials = credentials
        self._frames: dict[str, DataFrame] = {}
        self._cached: list[DataFrame] = []

    def run(self, on_step: OnStep = lambda _: None) -> dict[str, Any]:
        """Run the pipeline; return rows and path of each output."""
        try:
            for name, source in self._pipeline.inputs.items():
                self._register(name, self._input(source))
            for step in self._pipeline.steps:
                on_step(step.name)
                self._register(step.name, self._result_of(step))
            return {
                name: self._write(name, output, on_step)
                for name, output in self._pipeline.outputs.items()
            }
        finally:
            for frame in self._cached:
                frame.unpersist()

    def _input(self, source: str | Data) -> DataFrame:
        if isinstance(source, Data):
            return read_data(self._session, source)
        return self._session.table(source)

    def _register(self, name: str, frame: DataFrame) -> None:
        self._frames[name] = frame
        frame.createOrReplaceTempView(name)

    def _result_of(self, step: PipelineStep) -> DataFrame:
        if step.sql:
            check_plan(parse(self._session, step.sql))
            return self._session.sql(step.sql, args=self._parameters)
        if step.call is not None:
            return self._called(step.name, step.call)
        return self._from_python(step.python)

    def _called(self, name: str, call: CallStep) -> DataFrame:
        url = call.url or self._broker_url
        if not url:
            raise ValueError(
                f"step {name!r} needs a url: this worker's dialect carries no idempotency keys"
            )
        # A repeated run, even on another worker, has the same id and so the same calls.
        options = call.model_dump(exclude={"rows", "url", "service", "task", "credentials"})
        answered = call_service(
            self._frames[call.rows],
            url,
            call.service,
            call.task,
            run=f"{self._run}/{name}",
            credentials=call.credentials or self._credentials,
            **options,
        ).persist()
        self._cached.append(answered)
        return answered

    def _from_python(self, path: str) -> DataFrame:
        module, _, name = path.partition(":")
        function = getattr(importlib.import_module(module), name)
        frame = function(dict(self._frames), **self._parameters)
        if not isinstance(frame, DataFrame):
            raise TypeError(f"{path} must return a DataFrame, not {type(frame).__name__}")
        return frame

    def _write(self, name: str, output: Output, on_step: OnStep) -> dict[str, object]:
        on_step(f"writing {name}")
        counted = Observation()
        frame = self._frames[name].observe(counted, F.count(F.lit(1)).alias("rows"))
        path = output.path.rstrip("/")
        final = f"{path}/run={self._run}" if output.mode == "append" else path
        part = f"{path}.partial-{self._run}"
        try:
            frame.write.format(output.format).options(**output.options).mode("overwrite").save(part)
            _move(self._session, part, final)
        finally:
            _delete(self._session, part)
        return {"rows": counted.get["rows"], "path": final}


def _file_system(session: SparkSession, path: str) -> tuple[Any, Any]:
    jvm: Any = session._jvm
    found = jvm.org.apache.hadoop.fs.Path(path)
    return found.getFileSystem(session._jsc.sc().hadoopConfiguration()), found


def _move(session: SparkSession, source: str, target: str) -> None:
    """Replace one folder by another, on any file system that Spark writes to."""
    files, old = _file_system(session, target)
    files.delete(old, True)
    files.mkdirs(old.getParent())
    if not files.rename(_file_system(session, source)[1], old):
        raise OSError(f"cannot move {source} to {target}")


def _delete(session: SparkSession, path: str) -> None:
    files, found = _file_system(session, path)
    files.delete(found, True)
