"""The memory for queued bodies follows the machine or the container."""

from pathlib import Path

import pytest

from dragoman.core.limits import Limits
from dragoman.server.machine_memory import usable_memory, with_memory

V2, V1 = "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"


@pytest.mark.parametrize(("name", "text"), [(V2, "104857600\n"), (V1, "104857600\n")])
def test_a_container_has_what_its_control_group_says(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text(text)
    assert usable_memory(tmp_path) == 104857600


@pytest.mark.parametrize("text", ["max\n", "9223372036854771712\n"])
def test_without_a_limit_the_machine_counts(tmp_path: Path, text: str) -> None:
    machine = usable_memory(tmp_path)
    (tmp_path / V2).parent.mkdir(parents=True)
    (tmp_path / V2).write_text(text)
    assert usable_memory(tmp_path) == machine > 2**28


def test_an_eighth_of_it_is_for_queued_bodies_unless_it_is_set() -> None:
    assert with_memory(Limits(), 2**33).queued_memory == 2**30
    assert with_memory(Limits(), 2**20).queued_memory == 16 * 2**20
    assert with_memory(Limits(queued_memory=7), 2**33).queued_memory == 7
