"""`dragoman pipeline upload`: copy the export to object storage, for pipelines elsewhere."""

import time
from collections.abc import Callable

import typer

from dragoman.cli.output import print_done
from dragoman.cli.pipeline_session import AS_JSON, SOURCE, spoken_errors, stop


def upload(
    target: str = typer.Argument(help="The URL or folder of the copy: s3://bucket/segments."),
    source: str = SOURCE,
    every: int = typer.Option(0, min=0, help="Look again every so many seconds; 0: only once."),
    as_json: bool = AS_JSON,
) -> None:
    """Copy new segments of the export to object storage; `--source` then reads them there."""
    with spoken_errors():
        upload_until_stopped(source, target, every, as_json)


def upload_until_stopped(
    source: str,
    target: str,
    every: int,
    as_json: bool,
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Copy once, or again and again until interrupted."""
    from dragoman.pipeline.upload import OtherLedger
    from dragoman.pipeline.upload import upload as copy_new

    while True:
        try:
            done = copy_new(source, target)
        except OtherLedger as error:
            raise stop(str(error), 2) from None
        if done.segments or not every:
            what = f"{done.segments} segment(s), {done.bytes / 1e3:,.0f} kB"
            text = f"copied {what}; {target} has every record up to {done.upto:,}"
            print_done(text, as_json, **vars(done))
        if not every:
            return
        try:
            wait(every)
        except KeyboardInterrupt:
            return
