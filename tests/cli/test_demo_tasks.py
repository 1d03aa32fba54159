"""What the demo's workers do."""

import pytest

from dragoman.cli.demo.tasks import echo, refuse, square
from dragoman.sdk.tasks import TaskFailed


def test_they_echo_refuse_and_square() -> None:
    assert echo({"a": 1}) == {"a": 1}
    assert square(7) == 49
    with pytest.raises(TaskFailed, match="refused"):
        refuse()
