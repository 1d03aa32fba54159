"""What the URL of a webhook may look like."""

import pytest

from dragoman.model.job_options import apply_options
from dragoman.model.terms import Terms
from dragoman.model.webhook import LONGEST_URL, read_hook, split_hook_url


def test_the_url_of_a_webhook_is_kept_as_it_is() -> None:
    url = "https://hooks.example.org:8443/done?job=1"
    assert read_hook(url) == url
    assert split_hook_url(url).hostname == "hooks.example.org"
    assert apply_options(Terms(), {"webhook": url}).webhook == url


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "https://",
        "https://ada:secret@example.org/",
        "https://example.org/a b",
        "https://example.org/\r\nX: y",
        "https://example.org:0/",
        "https://example.org:99999/",
        "https://ex\u00e4mple.org/",
        "https://[::1]/",
        "https://example.org:65536/",
        "https://example.org/" + "x" * LONGEST_URL,
    ],
)
def test_what_is_no_webhook_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="webhook: "):
        apply_options(Terms(), {"webhook": url})


def test_a_number_is_no_url() -> None:
    with pytest.raises(ValueError, match="webhook: must be a URL"):
        apply_options(Terms(), {"webhook": 7})
