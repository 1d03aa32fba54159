from dragoman.compat.dramatiq import errors
from dragoman.compat.dramatiq.results.backends import RedisBackend, StubBackend


def test_results_have_errors_of_one_kind() -> None:
    for name in ("ResultMissing", "ResultTimeout", "ResultFailure"):
        assert issubclass(getattr(errors, name), errors.ResultError)
    assert errors.Retry("x", delay=5).delay == 5
    assert RedisBackend is StubBackend
