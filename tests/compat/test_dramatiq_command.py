import pytest

from dragoman.compat.dramatiq.command import run_command


def test_a_command_that_cannot_be_meant_is_refused() -> None:
    with pytest.raises(SystemExit, match="one process here"):
        run_command(["os", "-p", "4"])
    with pytest.raises(ModuleNotFoundError):
        run_command(["no_such_module"])
