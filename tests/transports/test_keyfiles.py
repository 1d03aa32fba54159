"""Files with secrets are read only if no other user can read them."""

from pathlib import Path

import pytest

from dragoman.transports.keyfiles import read_private


def test_a_private_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("secret")
    path.chmod(0o400)
    assert read_private(path) == "secret"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_a_file_that_others_may_use_is_refused_and_the_remedy_named(
    tmp_path: Path, mode: int
) -> None:
    path = tmp_path / "key"
    path.write_text("secret")
    path.chmod(mode)
    with pytest.raises(ValueError, match="chmod 600") as refused:
        read_private(path)
    assert "secret" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="key: No such file"):
        read_private(tmp_path / "key")
