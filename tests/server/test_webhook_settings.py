import pytest
from pydantic import ValidationError

from dragoman.server.webhook_post import HookPolicy
from dragoman.server.webhook_settings import WebhookSection


def test_a_secured_broker_needs_a_list_of_hosts() -> None:
    assert WebhookSection().policy(is_secured=False) == HookPolicy(None, True)
    assert WebhookSection().policy(is_secured=True) == HookPolicy((), False)
    listed = WebhookSection(hosts=("a",), private=True)
    assert listed.policy(is_secured=True) == HookPolicy(("a",), True)


@pytest.mark.parametrize("is_secured", [True, False])
def test_a_job_reaches_listed_hosts_only_whether_secured_or_not(is_secured: bool) -> None:
    assert WebhookSection().job_policy(is_secured) == HookPolicy((), not is_secured)
    assert WebhookSection(hosts=("a",)).job_policy(is_secured) == HookPolicy(("a",), not is_secured)


def test_there_is_nothing_to_do_without_services_and_hosts() -> None:
    assert not WebhookSection().is_used
    assert WebhookSection(hosts=("a",)).is_used
    assert WebhookSection(services={"mail": "https://a/"}).is_used


def test_what_is_no_url_is_refused() -> None:
    with pytest.raises(ValidationError, match="webhook"):
        WebhookSection(services={"mail": "file:///etc/passwd"})
    with pytest.raises(ValidationError):
        WebhookSection(speed=3)  # type: ignore[call-arg]
