import pytest

from dragoman.model.job_options import apply_options
from dragoman.model.retry import Retry
from dragoman.model.terms import Terms


def test_options_become_terms() -> None:
    given = {"retries": 2, "delay": 5, "at": 1e9, "run_timeout": 3, "max_attempts": 7}
    assert apply_options(Terms(priority=1), given) == Terms(
        priority=1, retry=Retry(2), delay=5.0, not_before=1e9, run_timeout=3.0, max_attempts=7
    )


def test_no_options_change_nothing() -> None:
    terms = Terms()
    assert apply_options(terms, None) is terms
    assert apply_options(terms, {}) is terms


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1], "must be an object"),
        ({"retrys": 1}, "unknown option 'retrys'; use retries"),
        ({"delay": -1}, "delay: must be 0 to"),
        ({"delay": "1"}, "delay: must be a number"),
        ({"delay": float("nan")}, "delay: must be 0 to"),
        ({"retries": 5000}, "retries: retries must be 0 to 1000"),
        ({"max_attempts": 0}, "max_attempts: must be a whole number"),
    ],
)
def test_a_refusal_says_what_is_wrong(given: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        apply_options(Terms(), given)
