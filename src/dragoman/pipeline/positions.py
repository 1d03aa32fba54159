"""Tells the broker how far a pipeline has read, so that it keeps the segments after that.

The position is a small file in `readers/` of the export, one for each place of tables. An export
elsewhere (a URL) is a copy, which the broker does not clean up, so it gets none.
"""

import hashlib
import json
import logging
import os
from pathlib import Path
from typing import Final

from dragoman.pipeline.storage import plain_uri

READERS: Final = "readers"

log = logging.getLogger(__name__)


def note_position(source: str, root: str, seq: int) -> None:
    """Store that the tables under `root` have every record of an export up to `seq`."""
    folder = Path(plain_uri(source))
    if "://" in plain_uri(source) or not folder.is_dir():
        return
    tables = plain_uri(root)
    tables = tables if "://" in tables else str(Path(tables).resolve())
    name = hashlib.sha256(tables.encode()).hexdigest()[:16]
    path = folder / READERS / f"{name}.json"
    fresh = path.with_name(f"{name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        fresh.write_text(json.dumps({"tables": tables, "last": seq}) + "\n")
        fresh.replace(path)
    except OSError as error:
        log.warning(
            "cannot write %s: %s; the broker does not know that these tables need segments after "
            "record %d",
            path,
            error,
            seq,
        )
