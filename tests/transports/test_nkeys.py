"""NATS's keys, with a pair that NATS's own tools made."""

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from dragoman.transports.nkeys import Nkey, read_secret

#: From the text that describes NATS's authentication by nkeys.
SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
PUBLIC = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"


def test_a_seed_made_elsewhere_has_the_public_key_it_had_there() -> None:
    pair = Nkey.from_seed(SEED)
    assert pair.public == PUBLIC
    assert pair.seed == SEED


def test_a_new_pair_is_read_again_and_signs() -> None:
    pair = Nkey.new()
    again = Nkey.from_seed(pair.seed)
    assert again.public == pair.public
    raw = base64.b32decode(pair.public + "=" * (-len(pair.public) % 8))[1:33]
    Ed25519PublicKey.from_public_bytes(raw).verify(base64.b64decode(again.sign("nonce")), b"nonce")


@given(st.one_of(st.text(max_size=70), st.just(SEED[:-1] + "A"), st.just(PUBLIC)))
def test_any_other_text_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match="seed") as caught:
        Nkey.from_seed(text)
    assert len(text) < 10 or text not in str(caught.value)


def test_a_pair_shows_its_public_key_only() -> None:
    assert repr(Nkey.from_seed(SEED)) == f"Nkey({PUBLIC})"


def test_a_secret_is_a_seed_alone_or_a_file_of_natss_own_tools() -> None:
    assert read_secret(f"{SEED}\n")[1] == ""
    creds = (
        "-----BEGIN NATS USER JWT-----\neyJ0.eyJq.c2ln\n------END NATS USER JWT------\n\n"
        "*** IMPORTANT ***\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{SEED}\n------END USER NKEY SEED------\n"
    )
    pair, jwt = read_secret(creds)
    assert (pair.public, jwt) == (PUBLIC, "eyJ0.eyJq.c2ln")
    with pytest.raises(ValueError, match="seed"):
        read_secret("nothing of the kind")
