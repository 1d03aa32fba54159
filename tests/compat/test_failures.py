import pytest

from dragoman.compat.failures import plain_message, rebuild
from dragoman.model.fault import Fault, FaultCode


@pytest.mark.parametrize(
    ("message", "name", "text"),
    [
        ("ValueError: no\n  in f, a.py line 3", "ValueError", "no"),
        ("Permanent: KeyError: 'x'", "KeyError", "'x'"),
        ("TryAgain: after 3.000 s: OSError: gone", "OSError", "gone"),
        ("requests.HTTPError: 500", "HTTPError", "500"),
        ("UnicodeDecodeError: bad", "UnicodeDecodeError", "bad"),
        ("the worker is gone", "RuntimeError", "the worker is gone"),
        ("", "RuntimeError", "task_failed"),
        ("StopAsyncIteration", "StopAsyncIteration", ""),
    ],
)
def test_an_exception_is_rebuilt_by_its_name(message: str, name: str, text: str) -> None:
    error = rebuild(Fault(FaultCode.TASK_FAILED, message))
    assert (type(error).__name__, str(error)) == (name, text)


def test_the_lines_of_the_task_are_a_note() -> None:
    error = rebuild(Fault(FaultCode.TASK_FAILED, "ValueError: no\n  in f, a.py line 3"))
    assert error.__notes__ == ["  in f, a.py line 3"]
    assert plain_message("Permanent: a") == "a"
