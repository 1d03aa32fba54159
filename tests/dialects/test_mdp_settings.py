"""The defaults of MDP."""

from dragoman.dialects.mdp.settings import MdpSettings


def test_requests_wait_for_workers_and_only_titanic_waits_for_the_disk() -> None:
    settings = MdpSettings()
    assert settings.terms.patience == 60.0
    assert not settings.terms.strict
    assert settings.titanic.strict


def test_a_busy_worker_may_be_silent_for_longer_than_an_idle_one() -> None:
    settings = MdpSettings()
    assert settings.missed_allowed_busy > 10 * settings.missed_allowed
