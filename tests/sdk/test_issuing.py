"""Keys that are handed out have the forms that transports prove."""

import re

from dragoman.sdk.issuing import (
    new_authority,
    new_certificate,
    new_credentials,
    new_curve,
    new_nkey,
)


def test_every_key_has_its_form() -> None:
    public, secret = new_curve()
    assert len(public) == len(secret) == 40
    user, seed = new_nkey()
    assert re.fullmatch(r"U[A-Z2-7]{55}", user)
    assert re.fullmatch(r"SU[A-Z2-7]{56}", seed)
    assert re.fullmatch(r"tls:[0-9a-f]{64}", new_certificate(new_authority("a"), "b").key)


def test_a_peer_gets_all_that_its_broker_can_check_and_no_more() -> None:
    authority = new_authority("house")
    made, keys = new_credentials("anna", "b" * 40, authority, "drgt-x")
    assert made.has_curve
    assert made.has_tls
    assert made.token == "drgt-x"
    assert [key.partition(":")[0] for key in keys] == ["nkey", "curve", "tls"]
    assert keys[1] == f"curve:{made.public}"
    bare, keys = new_credentials("otto")
    assert not bare.has_curve
    assert not bare.has_tls
    assert len(keys) == 1
    assert bare.seed


def test_certificates_differ() -> None:
    authority = new_authority("house")
    assert new_certificate(authority, "a").key != new_certificate(authority, "a").key
