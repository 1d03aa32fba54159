"""The defaults of DCP: what a deployment that says nothing gets."""

from dragoman.dialects.dcp.settings import DcpSettings
from dragoman.dialects.dcp.wire import WIDE


def test_requests_wait_for_workers_and_nothing_waits_for_the_disk() -> None:
    terms = DcpSettings().terms
    assert terms.patience == 60
    assert not terms.strict
    assert terms.balance == "least_recently_used"


def test_a_worker_that_computes_may_be_silent_for_much_longer_than_one_that_waits() -> None:
    settings = DcpSettings()
    assert settings.missed_allowed_busy >= 10 * settings.missed_allowed


def test_a_peer_never_heard_is_spoken_to_as_dagbox_would_be() -> None:
    assert DcpSettings().width == WIDE
    assert DcpSettings().faults == "empty"
    assert not DcpSettings().takes_named_clients
