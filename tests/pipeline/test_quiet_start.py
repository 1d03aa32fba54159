"""The noise of Spark's start is dropped; other lines are passed on."""

import subprocess
import sys

import pytest

from dragoman.pipeline.quiet_start import NOISE, quiet_start

PROGRAM = f"import os; os.write(2, b''.join(n + b'x\\n' for n in {NOISE!r}) + b'kept\\n')"


@pytest.mark.process
def test_a_process_started_in_the_block_loses_only_the_noise(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with quiet_start():
        started = subprocess.Popen([sys.executable, "-c", PROGRAM])
    assert started.wait(30) == 0
    said = ""
    while "kept\n" not in said:  # the test's own time limit ends this
        said += capfd.readouterr().err
    assert said == "kept\n"


def test_afterwards_standard_error_is_as_before(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet_start():
        pass
    print(NOISE[1].decode(), file=sys.stderr)
    assert capfd.readouterr().err == NOISE[1].decode() + "\n"
