"""The defaults of DCP."""

from dragoman.dialects.dcp.settings import DcpSettings
from dragoman.dialects.dcp.wire import WIDE


def test_requests_wait_for_workers_and_nothing_waits_for_the_disk() -> None:
    terms = DcpSettings().terms
    assert terms.patience == 60
    assert not terms.strict
    assert terms.balance == "least_recently_used"


def test_a_busy_worker_may_be_silent_for_longer_than_an_idle_one() -> None:
    settings = DcpSettings()
    assert settings.missed_allowed_busy >= 10 * settings.missed_allowed


def test_an_unknown_peer_gets_dagbox_width() -> None:
    assert DcpSettings().width == WIDE
    assert DcpSettings().faults == "empty"
    assert not DcpSettings().takes_named_clients
