"""The ready file: tells other programs that the broker listens, and where."""

import json
from pathlib import Path


def write_ready_file(path: Path, endpoints: dict[str, str]) -> None:
    """Write the bound endpoints atomically."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(endpoints) + "\n")
    # It holds no secret, and another user may wait for the broker.
    part.chmod(0o644)
    part.rename(path)
