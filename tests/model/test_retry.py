import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.fault import Fault, FaultCode
from dragoman.model.retry import (
    NO_RETRY,
    Retry,
    asked_wait,
    exception_name,
    label_text,
    read_label,
    read_retry,
    try_again_text,
)


def failed(message: str) -> Fault:
    return Fault(FaultCode.TASK_FAILED, message)


def test_waits_grow_by_the_factor_up_to_the_longest() -> None:
    retry = Retry(9, backoff=2, factor=3, longest=50)
    assert [retry.wait(n, "j") for n in (1, 2, 3, 4, 9)] == [2, 6, 18, 50, 50]
    assert [Retry(9, backoff=2, factor=1).wait(n, "j") for n in (1, 2, 9)] == [2, 2, 2]


@given(st.floats(0, 1), st.integers(1, 1000), st.text(max_size=9))
def test_jitter_shortens_a_wait_by_at_most_its_share(jitter: float, retry: int, job: str) -> None:
    wait = Retry(1000, backoff=8, factor=1, jitter=jitter).wait(retry, job)
    assert 8 * (1 - jitter) <= wait <= 8


def test_jitter_spreads_jobs_and_repeats_for_one() -> None:
    retry = Retry(1, jitter=1)
    assert len({retry.wait(1, f"job-{n}") for n in range(100)}) == 100
    assert retry.wait(1, "job-1") == retry.wait(1, "job-1")


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("ValueError: no", "ValueError"),
        ("ValueError", "ValueError"),
        ("requests.exceptions.Timeout: slow\n  in f", "Timeout"),
        ("it failed", ""),
        ("", ""),
    ],
)
def test_the_exception_is_the_first_word_of_the_message(message: str, name: str) -> None:
    assert exception_name(failed(message)) == name


def test_a_policy_covers_faults_and_exceptions_by_name() -> None:
    assert Retry(1).covers(failed("ValueError: x"))
    assert not Retry(1).covers(Fault(FaultCode.RUN_TIMEOUT))
    assert Retry(1, on=("run_timeout",)).covers(Fault(FaultCode.RUN_TIMEOUT))
    only = Retry(1, on=("ConnectionError",))
    assert only.covers(failed("ConnectionError: reset"))
    assert not only.covers(failed("KeyError: 1"))


def test_a_permanent_failure_is_covered_by_none() -> None:
    assert not Retry(1, on=("task_failed", "Permanent")).covers(failed("Permanent: no such user"))


def test_retries_are_read_from_a_number_an_object_or_text() -> None:
    assert read_retry(3) == Retry(3)
    assert read_retry({"times": 2, "on": ["KeyError"]}) == Retry(2, on=("KeyError",))
    assert read_retry('{"times": 2}') == read_retry("2") == Retry(2)


@pytest.mark.parametrize(
    "given", [True, None, -1, 1001, {"times": "3"}, {"tries": 3}, {"on": "x"}, {"jitter": 2}, "{"]
)
def test_what_cannot_be_meant_is_refused(given: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_retry(given)


def test_a_whole_number_may_be_written_with_a_point() -> None:
    assert read_retry({"times": 3.0}).times == 3
    with pytest.raises(ValueError, match="times must be a number"):
        read_retry({"times": 3.5})


def test_text_that_is_no_json_is_refused_however_deep() -> None:
    for text in ("", "x", "[" * 200_000):
        with pytest.raises(ValueError, match="retries must be"):
            read_retry(text)


def test_a_label_reads_back_and_an_unreadable_one_means_none() -> None:
    retry = Retry(3, backoff=0.5, on=("KeyError",))
    assert read_label(label_text(retry)) == retry
    assert read_label("nonsense") == NO_RETRY


@pytest.mark.parametrize(
    ("message", "wait"),
    [
        ("TryAgain: after 2.500 s: busy", 2.5),
        ("TryAgain: after 9999999 s: busy", 604_800.0),
        ("TryAgain: soon", None),
        ("the text TryAgain: after 2 s", None),
        (try_again_text(-1, ""), 0.0),
    ],
)
def test_a_task_may_say_when_it_wants_to_run_again(message: str, wait: float | None) -> None:
    assert asked_wait(Fault(FaultCode.TASK_FAILED, message)) == wait
    assert asked_wait(Fault(FaultCode.RUN_TIMEOUT, message)) is None


def test_such_a_wish_is_covered_by_every_policy() -> None:
    fault = Fault(FaultCode.TASK_FAILED, try_again_text(1, "busy"))
    assert Retry(1, on=("ValueError",)).covers(fault)
