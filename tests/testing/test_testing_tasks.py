"""The tasks of the demo's, fuzzer's and soak's workers."""

import pytest

from dragoman.sdk.tasks import TaskFailed
from dragoman.testing.tasks import echo, refuse, square


def test_they_echo_refuse_and_square() -> None:
    assert echo({"a": 1}) == {"a": 1}
    assert square(7) == 49
    with pytest.raises(TaskFailed, match="refused"):
        refuse()
