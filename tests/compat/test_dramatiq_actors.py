import pytest

from dragoman import Step
from dragoman.compat.dramatiq import DragomanBroker, actor
from dragoman.compat.hints import NotInCompat
from dragoman.model.retry import Retry

BROKER = DragomanBroker()


@actor(broker=BROKER, time_limit=60_000, max_age=3_600_000, priority=3)
def work(x: int) -> int:
    return x


def test_options_of_an_actor_become_those_of_its_jobs() -> None:
    assert work.terms({}) == {"run_timeout": 60.0, "queue_timeout": 3600.0}
    assert work.terms({"delay": 1500, "max_retries": 2})["retries"]["times"] == 2
    assert work.terms({"delay": 1500})["delay"] == 1.5
    assert work.terms({"result_ttl": 600_000})["result_ttl"] == 600.0
    assert work(4) == 4


def test_an_actor_is_retried_twenty_times_unless_it_says_otherwise() -> None:
    assert work.retries() == Retry(20, 15.0, longest=604_800.0)
    other = actor(print, broker=BROKER, max_retries=3, min_backoff=100, max_backoff=500)
    assert other.retries() == Retry(3, 0.1, longest=0.5)
    assert actor(max, broker=BROKER, max_retries=None).retries().times == 1000


def test_a_message_is_a_step_of_a_workflow() -> None:
    message = work.message_with_options(args=(1,), delay=2000)
    assert message.step() == Step("default", "work", 1).with_options(run_timeout=60.0, delay=2.0)
    # The result of a step is kept while its workflow is open.
    kept = actor(min, broker=BROKER, result_ttl=5000)
    assert kept.message(1).step() == Step("default", "min", 1)
    assert message.copy(args=(2,)).args == (2,)
    assert message.actor_name == "work"


def test_what_is_not_there_raises_with_a_hint() -> None:
    with pytest.raises(NotInCompat, match=r"'retry_when'.*throws"):
        actor(broker=BROKER, retry_when=lambda n, e: True)(work.fn)
    with pytest.raises(NotInCompat, match=r"'on_success'.*pipeline"):
        work.terms({"on_success": work})
    with pytest.raises(ImportError, match=r"rate_limits is not in .*limit=Limit"):
        from dragoman.compat.dramatiq import rate_limits  # noqa: F401
