"""The capacity of this machine."""

import os
from pathlib import Path

from dragoman.sdk.machine import machine_capacity


def test_it_is_what_the_system_says(tmp_path: Path) -> None:
    found = machine_capacity(tmp_path)
    assert 1 <= found.cpu <= (os.cpu_count() or 1)
    assert found.memory > 2**28
    assert found.disk > 0


def test_a_container_s_limits_count_where_they_are_lower(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    (tmp_path / "memory.max").write_text("1048576\n")
    found = machine_capacity(tmp_path)
    assert (found.cpu, found.memory) == (0.5, 1048576)


def test_a_container_without_limits_has_those_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    without = machine_capacity(tmp_path / "none")
    found = machine_capacity(tmp_path)
    assert (found.cpu, found.memory) == (without.cpu, without.memory)
