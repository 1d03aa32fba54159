"""`dragoman top`: which broker it asks."""

import pytest

from dragoman.cli.top.command import http_url


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("http://b:1", "http://b:1"),
        ("https://b", "https://b"),
        ("nfp://b:5555", "http://b:8420"),
        ("nfp://127.0.0.1:5555", "http://127.0.0.1:8420"),
    ],
)
def test_any_url_of_a_broker_leads_to_its_http_link(given: str, asked: str) -> None:
    assert http_url(given) == asked
