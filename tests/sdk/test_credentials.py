"""Credentials files: private to their owner, and never shown."""

from pathlib import Path

import pytest
import zmq.auth

from dragoman.sdk.credentials import (
    NONE,
    Credentials,
    find_credentials,
    read_credentials,
    write_credentials,
)

ALL = Credentials(
    public="p" * 40,
    secret="s$#&'".ljust(40, "x").replace("'", "("),
    server="-" * 40,
    certificate="-----BEGIN-----\nabc\n-----END-----",
    key="-----BEGIN KEY-----\ndef\n-----END-----",
    authority="-----BEGIN CA-----\nghi\n-----END-----",
    token="drgt-1-2",
    seed="SUAB",
    token_file="/run/token",
)


def test_what_is_written_is_read_again_and_only_its_owner_may(tmp_path: Path) -> None:
    path = tmp_path / "anna.key"
    write_credentials(path, ALL)
    assert read_credentials(path) == ALL
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_others_can_read_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "anna.key"
    write_credentials(path, ALL)
    path.chmod(0o640)
    with pytest.raises(ValueError, match="chmod 600"):
        read_credentials(path)


def test_certificate_files_of_pyzmq_are_read(tmp_path: Path) -> None:
    _, secret_file = zmq.auth.create_certificates(str(tmp_path), "anna")
    public, secret = zmq.auth.load_certificate(secret_file)
    Path(secret_file).chmod(0o600)
    assert secret is not None
    found = read_credentials(Path(secret_file))
    assert (found.public, found.secret) == (public.decode(), secret.decode())


@pytest.mark.parametrize("text", ["", "curve", "[other]\nx = 1", "[curve]\npublic = 1"])
def test_other_files_are_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ValueError, match="other"):
        read_credentials(path)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ValueError, match="nowhere: No such file"):
        read_credentials(Path("nowhere"))


def test_the_environment_names_the_file_and_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_credentials(None) == NONE
    write_credentials(tmp_path / "mine", Credentials(public="p" * 40, secret="s" * 40))
    monkeypatch.setenv("DRAGOMAN_KEY_FILE", str(tmp_path / "mine"))
    assert not find_credentials(None).has_curve
    monkeypatch.setenv("DRAGOMAN_SERVER_KEY", "b" * 40)
    assert find_credentials(None).has_curve
    assert find_credentials(None).server == "b" * 40
    assert find_credentials(ALL) is ALL


def test_credentials_show_nothing(tmp_path: Path) -> None:
    shown = f"{ALL!r} {ALL}"
    assert shown.startswith("Credentials(public, secret,")
    for secret in (ALL.secret, ALL.token, ALL.seed, "def"):
        assert secret not in shown
