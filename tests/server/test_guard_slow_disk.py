"""The guard on a slow disk: what is written does not delay what is read."""

import threading
from pathlib import Path

import pytest
from tests.server.memory_server import settle
from tests.server.test_guard import WILL, SecuredServer, with_a_worker

from dragoman.security.files import replace_file
from dragoman.server import guard


def test_a_revocation_takes_effect_while_the_disk_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, has_written = SecuredServer(tmp_path), threading.Event()

    def slowly(path: Path, content: bytes) -> None:
        assert has_written.wait(20)
        replace_file(path, content)

    monkeypatch.setattr(guard, "replace_file", slowly)

    async def scenario(server: SecuredServer) -> None:
        server.guard.start()
        await with_a_worker(server)
        await settle(lambda: not server.guard._names.is_dirty)
        server.registry.revoke("will")
        await settle(lambda: server.hub.was_cut == [WILL])
        assert not (tmp_path / guard.NAMES_FILE).exists()
        has_written.set()

    server.run(scenario)
    assert (tmp_path / guard.NAMES_FILE).exists()
