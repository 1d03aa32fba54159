"""The defaults of an NFP link are those that NorFab's peers expect."""

from dragoman.dialects.nfp.settings import RESERVED, NfpSettings


def test_a_silent_worker_is_held_as_long_as_norfab_holds_it() -> None:
    assert NfpSettings().hold == 15.0
    assert NfpSettings(beat_every=1.0, missed_allowed=3).hold == 3.0


def test_the_credit_fits_in_a_zeromq_queue() -> None:
    assert NfpSettings().worker_credit < 1000


def test_the_brokers_own_services_are_reserved() -> None:
    assert {"all", "mmi.service.broker", "sid.service.broker", "events.service.broker"} < RESERVED
