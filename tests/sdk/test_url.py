"""One URL names dialect and endpoint."""

import pytest

from dragoman.sdk.url import WORKER_PORTS, parse_url


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("nfp://host:1", "tcp://host:1"),
        ("nfp://host", "tcp://host:5555"),
        ("zss://host", "tcp://host:7777"),
        ("memo://[::1]:9", "tcp://[::1]:9"),
        ("nfp://a:1,b", "tcp://a:1,b:5555"),
        ("http://[::1]:9,b:1?x=1", "tcp://[::1]:9,b:1"),
        ("memo:///tmp/x.sock", "ipc:///tmp/x.sock"),
    ],
)
def test_urls_are_read(url: str, address: str) -> None:
    endpoint = parse_url(url)
    assert endpoint.address == address
    assert endpoint.dialect == url.partition(":")[0]


def test_workers_of_zss_have_a_port_of_their_own() -> None:
    assert parse_url("zss://host", WORKER_PORTS).address == "tcp://host:7776"


@pytest.mark.parametrize(
    "url", ["host:1", "ftp://host", "nfp://", "nfp://host:port", "nfp://h:99999", "nfp://a:1,,b"]
)
def test_a_wrong_url_is_refused_with_a_sentence(url: str) -> None:
    with pytest.raises(ValueError, match=url.replace("/", ".")):
        parse_url(url)


def test_an_endpoint_reads_as_a_url() -> None:
    assert str(parse_url("dcp://h:3")) == "dcp://h:3"


def test_a_token_and_options_are_kept_and_the_token_is_not_shown() -> None:
    endpoint = parse_url("ncl://s3cret@host?heartbeat_interval=5&store=a/b")
    assert endpoint.address == "tcp://s3cret@host:4222"
    assert endpoint.options == (("heartbeat_interval", "5"), ("store", "a/b"))
    assert str(endpoint) == "ncl://host:4222"


def test_several_addresses_are_one_endpoint_with_alternatives() -> None:
    endpoint = parse_url("ncl://s3cret@a,b:9?store=x")
    assert str(endpoint) == "ncl://a:4222,b:9"
    assert [each.address for each in endpoint.alternatives()] == [
        "tcp://s3cret@a:4222",
        "tcp://s3cret@b:9",
    ]
    assert {each.options for each in endpoint.alternatives()} == {endpoint.options}
