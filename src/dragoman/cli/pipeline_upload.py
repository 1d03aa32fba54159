"""`dragoman pipeline upload`: copy the export to object storage, for pipelines elsewhere."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import typer

from dragoman.cli.output import print_done
from dragoman.cli.pipeline_session import AS_JSON, SOURCE, spoken_errors, stop
from dragoman.security.files import only_owner

if TYPE_CHECKING:
    from dragoman.pipeline.upload import UploadSummary
    from dragoman.server.upload_turn import UploadTurn

#: Seconds between two looks whose turn it is.
_LOOK_EVERY: Final = 1.0


def upload(
    target: str = typer.Argument(help="The URL or folder of the copy: s3://bucket/segments."),
    source: str = SOURCE,
    every: int = typer.Option(0, min=0, help="Look again every so many seconds; 0: only once."),
    as_json: bool = AS_JSON,
) -> None:
    """Copy new segments of the export to object storage; `--source` then reads them there.

    In a cluster run it on every node, with `--every`: one of them copies, a standby if there is
    one, and another goes on if it fails.
    """
    # The copy holds what the ledger holds.
    only_owner()
    with spoken_errors():
        turn = _find_turn(source, target)
        try:
            upload_until_stopped(source, target, every, as_json, turn=turn)
        finally:
            if turn is not None:
                turn.close()


def _find_turn(source: str, target: str) -> "UploadTurn | None":
    from dragoman.server.upload_turn import find_turn

    try:
        return find_turn(source, target)
    except ConnectionError as error:
        hint = "start this node; if it has left its cluster, remove `cluster/node.json` of its data"
        raise stop(f"whose turn it is to copy is not known: {error}; {hint}", 1) from None


def upload_until_stopped(
    source: str,
    target: str,
    every: int,
    as_json: bool,
    wait: Callable[[float], None] = time.sleep,
    turn: "UploadTurn | None" = None,
) -> None:
    """Copy once, or again and again until interrupted."""
    while True:
        done = _copy(source, target, turn, is_once=not every)
        if done is None and not every:
            assert turn is not None
            text = f"node {turn.holder or '?'} copies to {target} now; nothing was copied here"
            print_done(text, as_json, holder=turn.holder, segments=0)
        elif done is not None and (done.segments or not every):
            what = f"{done.segments} segment(s), {done.bytes / 1e3:,.0f} kB"
            text = f"copied {what}; {target} has every record up to {done.upto:,}"
            print_done(text, as_json, **vars(done))
        if not every:
            return
        try:
            wait(every if done is not None else _LOOK_EVERY)
        except KeyboardInterrupt:
            return


def _copy(
    source: str, target: str, turn: "UploadTurn | None", *, is_once: bool
) -> "UploadSummary | None":
    """Copy what is new; None if it is the turn of another node."""
    from dragoman.pipeline.manifest import OtherLedger
    from dragoman.pipeline.upload import upload as copy_new
    from dragoman.server.upload_turn import TurnLost

    try:
        if turn is None:
            return copy_new(source, target)
        if not turn.take(at_once=is_once):
            return None
        done = copy_new(source, target, turn.require, is_one_of_several=True)
        turn.copied()
    except OtherLedger as error:
        raise stop(str(error), 2) from None
    except (TurnLost, TimeoutError, ConnectionError) as error:
        if turn is None or is_once:
            raise stop(str(error), 1) from None
        return None
    return done
