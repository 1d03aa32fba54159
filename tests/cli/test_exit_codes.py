"""Every error has its line and its exit code."""

from pathlib import Path

import pytest

from dragoman.cli.exit_codes import run_to_exit_code
from dragoman.ledger.base import LedgerError
from dragoman.model.fault import Fault, FaultCode
from dragoman.sdk.errors import StillRunning, Unreachable, failure


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Unreachable("gone"), 3),
        (failure("j", Fault(FaultCode.DENIED)), 4),
        (failure("j", Fault(FaultCode.RUN_TIMEOUT)), 5),
        (StillRunning("late"), 5),
        (failure("j", Fault(FaultCode.TASK_FAILED)), 1),
        (LedgerError("damaged"), 1),
        (ValueError("wrong"), 2),
        (SystemExit(7), 7),
        (SystemExit("words"), 1),
    ],
)
def test_the_exit_code_fits_the_error(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def app() -> None:
        raise error

    assert run_to_exit_code(app) == code
    if not isinstance(error, SystemExit):
        assert capsys.readouterr().err == f"dragoman: {error}\n"


def test_an_error_of_a_file_names_the_file_and_has_no_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "missing.txt"
    assert run_to_exit_code(missing.read_text) == 1
    assert capsys.readouterr().err == f"dragoman: {missing}: No such file or directory\n"


def test_a_bug_of_ours_is_not_hidden() -> None:
    def app() -> None:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        run_to_exit_code(app)


def test_all_well_is_zero() -> None:
    assert run_to_exit_code(lambda: None) == 0
