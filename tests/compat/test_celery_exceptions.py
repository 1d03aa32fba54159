from dragoman.compat.celery import exceptions


def test_programs_can_catch_all_of_them_by_one_name() -> None:
    for name in ("TimeoutError", "TaskRevokedError", "MaxRetriesExceededError", "Retry", "Ignore"):
        assert issubclass(getattr(exceptions, name), exceptions.CeleryError)
