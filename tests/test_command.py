"""The entry point of the command line."""

import pytest
from tests.test_extras import run_without

from dragoman.extras import MODULES


@pytest.mark.process
def test_the_command_without_its_extra_says_what_to_install() -> None:
    done = run_without(tuple(MODULES), "from dragoman.command import main; main()")
    assert done.returncode == 2
    assert "pip install 'dragoman[cli]'" in done.stderr


@pytest.mark.process
def test_the_command_with_its_extra_runs() -> None:
    program = "sys.argv = ['dragoman', '--version']\nfrom dragoman.command import main; main()"
    done = run_without((), program)
    assert (done.returncode, done.stdout.split()[0]) == (0, "dragoman")
