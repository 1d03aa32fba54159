"""Results that a worker keeps until the broker has them on record."""

from dragoman.dialects.unconfirmed import UnconfirmedResults


def test_a_recorded_result_is_dropped_and_an_open_one_is_sent_again() -> None:
    results = UnconfirmedResults()
    results.keep("j1", 1, [b"one"])
    results.keep("j2", 2, [b"two"])
    assert results.jobs() == ["j1", "j2"]
    assert results.settle(["j1"], ["j2"]) == [[b"two"]]
    assert results.jobs() == ["j2"]
    assert results.settle(["j2"], []) == []
    assert results.jobs() == []


def test_a_request_without_a_job_id_is_not_kept() -> None:
    results = UnconfirmedResults()
    results.keep("", 1, [b"one"])
    assert results.jobs() == []


def test_an_answer_about_unknown_jobs_changes_nothing() -> None:
    results = UnconfirmedResults()
    results.keep("j1", 1, [b"one"])
    assert results.settle(["x"], ["y", 7]) == []
    assert results.jobs() == ["j1"]


def test_a_poll_gets_the_kept_result_until_it_is_recorded() -> None:
    results = UnconfirmedResults()
    results.keep("j1", ("client", b"rid"), [b"one"])
    assert results.result_of(("client", b"rid")) == [b"one"]
    assert results.result_of(("client", b"other")) is None
    results.settle(["j1"], [])
    assert results.result_of(("client", b"rid")) is None
