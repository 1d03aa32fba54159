"""Makes `spark.read.format("dragoman")` work without registration.

Spark imports every module called `pyspark_*` when it looks up a format. This one imports the
source from `dragoman.pipeline.source`.
"""

from dragoman.pipeline.source import DragomanSource as DefaultSource

__all__ = ["DefaultSource"]
