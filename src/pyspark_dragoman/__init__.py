"""Found by Spark itself: makes `spark.read.format("dragoman")` work without registering it.

Spark imports every module called `pyspark_*` when it looks a format up, so this one only points
to where the source lives.
"""

from dragoman.pipeline.source import DragomanSource as DefaultSource

__all__ = ["DefaultSource"]
