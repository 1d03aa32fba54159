import pytest
from pydantic import ValidationError

from dragoman.server.webhook_post import HookPolicy
from dragoman.server.webhook_settings import WebhookSection


def test_a_secured_broker_needs_a_list_of_hosts() -> None:
    assert WebhookSection().policy(is_secured=False) == HookPolicy(None, True)
    assert WebhookSection().policy(is_secured=True) == HookPolicy((), False)
    listed = WebhookSection(hosts=("a",), private=True)
    assert listed.policy(is_secured=True) == HookPolicy(("a",), True)


def test_what_is_no_url_is_refused() -> None:
    with pytest.raises(ValidationError, match="webhook"):
        WebhookSection(services={"mail": "file:///etc/passwd"})
    with pytest.raises(ValidationError):
        WebhookSection(speed=3)  # type: ignore[call-arg]
