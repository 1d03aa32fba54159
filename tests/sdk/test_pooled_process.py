"""What ended a task process, in words. Its life with real processes: `test_process_pool`."""

import pytest

from dragoman.sdk.pooled_process import describe_death


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (3 << 8, "the task ended its process with exit status 3"),
        (11, "the task's process was killed by SIGSEGV (Segmentation fault)"),
        (
            9,
            "the task's process was killed by SIGKILL (Killed; the machine may be out of memory)",
        ),
        (50, "the task's process was killed by signal 50"),
    ],
)
def test_a_death_names_the_signal_or_the_exit_status(status: int, text: str) -> None:
    assert describe_death(status).startswith(text)
