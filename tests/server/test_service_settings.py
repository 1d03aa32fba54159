"""The settings of services, tasks and schedules."""

import pytest

from dragoman.model.capacity import Capacity
from dragoman.model.limit import Limit
from dragoman.model.retry import Retry
from dragoman.model.terms import Terms
from dragoman.server.service_settings import ScheduleSection, ServiceSection, TaskSection


def test_what_is_not_set_stays_as_the_dialect_has_it() -> None:
    given = Terms(timeout=5.0, run_timeout=2.0, strict=True)
    assert ServiceSection().apply(given) == given
    assert TaskSection().apply(given) == given


def test_a_setting_of_the_task_comes_before_that_of_the_service() -> None:
    section = ServiceSection(
        timeout=60.0,
        run_timeout=10.0,
        retries=1,
        tasks={"slow": TaskSection(timeout=600.0, retries=5, retry_backoff=3.0)},
    )
    slow, other = section.apply(Terms(), "slow"), section.apply(Terms(), "other")
    assert (slow.timeout, slow.run_timeout, other.timeout) == (600.0, 10.0, 60.0)
    assert (slow.retry, other.retry) == (Retry(5, 3.0, 2.0, 600.0), Retry(1, 1.0, 2.0, 600.0))


def test_the_retries_of_a_call_come_first() -> None:
    asked = Retry(9)
    assert ServiceSection(retries=1).apply(Terms(retry=asked)).retry == asked


def test_a_service_sets_durability_and_what_its_jobs_need() -> None:
    section = ServiceSection(durability="relaxed", cpu=2.0, memory=5, disk=6, gpu=1)
    found = section.apply(Terms(strict=True))
    assert (found.strict, found.needs) == (False, Capacity(2.0, 5, 6, 1))
    assert ServiceSection(durability="strict").apply(Terms(strict=False)).strict


def test_a_limit_has_its_members_from_the_settings() -> None:
    section = TaskSection(concurrency=3, rate=10.0, rate_per=60.0, burst=4)
    assert section.limit == Limit("", 3, 10.0, 60.0, 4)


def test_a_schedule_is_made_and_checked() -> None:
    found = ScheduleSection(service="reports", task="night", args=[1, 2], cron="0 3 * * *")
    assert found.schedule("nightly").args == (1, 2)
    assert found.schedule("nightly").name == "nightly"
    with pytest.raises(ValueError, match="cron or every"):
        ScheduleSection(service="reports").schedule("never")


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match="patiense"):
        ServiceSection(patiense=1)  # type: ignore[call-arg]
