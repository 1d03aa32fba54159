"""Running a registered pipeline: inputs, steps, outputs.

Steps are lazy, as Spark is, except those that call services: their answers are kept for the rest of
the run. Outputs are written beside their place and moved there when they are whole, so a run that
is cancelled or fails leaves the old output as it was.
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

#: Told what is being done.
OnStep = Callable[[str], None]


class PipelineRun:
    """One run of one pipeline, in a session of its own."""

    def __init__(
        self,
        session: SparkSession,
        pipeline: Pipeline,
        parameters: Mapping[str, Any],
        run: str,
        fabric: str,
        credentials: str = "",
    ) -> None:
        unknown = set(parameters) - set(pipeline.parameters)
        if unknown:
            known = ", ".join(pipeline.parameters) or "none"
            raise ValueError(f"no parameter {', '.join(sorted(unknown))}; there are {known}")
        self._session = session
        self._pipeline = pipeline
        self._parameters = {**pipeline.parameters, **parameters}
        self._run = run
        self._fabric = fabric
        #: Where executors find whom they speak for.
        self._credentials = credentials
        self._frames: dict[str, DataFrame] = {}
        self._kept: list[DataFrame] = []

    def run(self, on_step: OnStep = lambda _: None) -> dict[str, Any]:
        """Do it; return how many rows each output got."""
        try:
            for name, said in self._pipeline.inputs.items():
                self._know(name, self._input(said))
            for step in self._pipeline.steps:
                on_step(step.name)
                self._know(step.name, self._made(step))
            return {
                name: self._write(name, output, on_step)
                for name, output in self._pipeline.outputs.items()
            }
        finally:
            for frame in self._kept:
                frame.unpersist()

    def _input(self, said: str | Data) -> DataFrame:
        if isinstance(said, Data):
            return read_data(self._session, said)
        return self._session.table(said)

    def _know(self, name: str, frame: DataFrame) -> None:
        self._frames[name] = frame
        frame.createOrReplaceTempView(name)

    def _made(self, step: PipelineStep) -> DataFrame:
        if step.sql:
            check_plan(parse(self._session, step.sql))
            return self._session.sql(step.sql, args=self._parameters)
        if step.call is not None:
            return self._called(step.name, step.call)
        return self._from_python(step.python)

    def _called(self, name: str, call: CallStep) -> DataFrame:
        url = call.url or self._fabric
        if not url:
            raise ValueError(f"step {name!r} must say url: this worker's own has no keys for calls")
        # A run that is tried again, on another worker even, has the same id and so the same calls.
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
        self._kept.append(answered)
        return answered

    def _from_python(self, said: str) -> DataFrame:
        module, _, name = said.partition(":")
        function = getattr(importlib.import_module(module), name)
        made = function(dict(self._frames), **self._parameters)
        if not isinstance(made, DataFrame):
            raise TypeError(f"{said} returned no frame but {type(made).__name__}")
        return made

    def _write(self, name: str, output: Output, on_step: OnStep) -> dict[str, Any]:
        on_step(f"writing {name}")
        counted = Observation()
        frame = self._frames[name].observe(counted, F.count(F.lit(1)).alias("rows"))
        place = output.path.rstrip("/")
        final = f"{place}/run={self._run}" if output.mode == "append" else place
        part = f"{place}.partial-{self._run}"
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
    """Put one folder in the place of another, on whatever Spark writes to."""
    files, old = _file_system(session, target)
    files.delete(old, True)
    files.mkdirs(old.getParent())
    if not files.rename(_file_system(session, source)[1], old):
        raise OSError(f"{source} could not be moved to {target}")


def _delete(session: SparkSession, path: str) -> None:
    files, found = _file_system(session, path)
    files.delete(found, True)
