"""A restart listens on the ports of the first start."""

from pathlib import Path

from dragoman.server.settings_pinned import pinned
from dragoman.server.settings_sources import load


def test_free_ports_become_the_bound_ones_and_others_stay(tmp_path: Path) -> None:
    listen = {"nfp": "tcp://127.0.0.1:0", "memo": "off", "http": "http://127.0.0.1:8080"}
    settings = load(data=tmp_path, listen=listen)
    bound = {"nfp": "tcp://127.0.0.1:4711", "http": "tcp://127.0.0.1:9999"}
    found = pinned(settings, bound).listen
    assert found.nfp == "tcp://127.0.0.1:4711"
    assert found.http == "http://127.0.0.1:8080"
    assert found.memo == "off"
