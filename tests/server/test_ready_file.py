"""The ready file is there whole, or not at all."""

import json
from pathlib import Path

from dragoman.server.ready_file import write_ready_file


def test_the_ready_file_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    write_ready_file(path, {"nfp": "tcp://127.0.0.1:1"})
    assert json.loads(path.read_text()) == {"nfp": "tcp://127.0.0.1:1"}
    assert list(tmp_path.iterdir()) == [path]
