"""Keys: their forms, names of principals, and what is kept of a secret."""

import pytest

from dragoman.security.keys import brief, check_key, check_name, hashed

CURVE = "curve:" + "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"
GOOD = [CURVE, "tls:" + "0f" * 32, "nkey:U" + "A2" * 27 + "B", "token:0a1b2c3d4e5f"]


@pytest.mark.parametrize("key", GOOD)
def test_a_key_of_each_scheme_has_its_form(key: str) -> None:
    assert check_key(key) == key


@pytest.mark.parametrize(
    "key",
    ["", "curve:", CURVE[:-1], CURVE + "a", "tls:" + "0F" * 32, "nkey:A" + "A" * 55, "md5:00", "x"],
)
def test_any_other_text_is_refused_as_a_key(key: str) -> None:
    with pytest.raises(ValueError, match="key"):
        check_key(key)


def test_names_of_principals_are_plain_and_never_reserved() -> None:
    assert check_name("alice@example.org") == "alice@example.org"
    for name in ("", "anonymous", "house", "a b", "tls:00", "-x", "a" * 101, "a\n"):
        with pytest.raises(ValueError, match="no name for a principal"):
            check_name(name)


def test_a_long_key_is_shortened_for_people_and_a_short_one_is_not() -> None:
    assert brief(CURVE) == "curve:rq:rM>}U?@Ln..."
    assert brief("token:0a1b2c3d4e5f") == "token:0a1b2c3d4e5f"


def test_the_stored_hash_does_not_contain_the_secret() -> None:
    assert "secret" not in hashed("secret")
    assert hashed("secret") == hashed("secret") != hashed("Secret")
