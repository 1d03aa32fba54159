"""Anchors are signed, and a wrong line is named."""

import stat
from pathlib import Path

import pytest

from dragoman.server.anchors import BadAnchor, open_signing_key, read_anchors, sign


def test_anchors_read_back_as_links_by_record(tmp_path: Path) -> None:
    key = open_signing_key(tmp_path / "keys" / "anchor.key")
    text = sign(key, 3, "aa", 1.0) + b"\n" + sign(key, 9, "bb", 2.0)
    assert read_anchors(text, key.verify_key.encode()) == {3: "aa", 9: "bb"}


def test_the_key_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "anchor.key"
    assert open_signing_key(path) == open_signing_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("not a key")
    with pytest.raises(ValueError, match=r"anchor\.key: cannot read the key"):
        open_signing_key(path)


def test_a_line_that_was_changed_or_signed_by_another_key_is_named(tmp_path: Path) -> None:
    key, other = (open_signing_key(tmp_path / name) for name in ("one", "two"))
    good, public = sign(key, 3, "aa", 1.0), key.verify_key.encode()
    for bad in (good.replace(b"3", b"4"), sign(other, 3, "aa", 1.0), b"{}\n", b"no\n", b"\xff\n"):
        with pytest.raises(BadAnchor, match="line 2 is no anchor of this broker"):
            read_anchors(good + bad, public)


def test_two_anchors_of_one_record_must_agree(tmp_path: Path) -> None:
    key = open_signing_key(tmp_path / "anchor.key")
    text = sign(key, 3, "aa", 1.0) + sign(key, 3, "bb", 2.0)
    with pytest.raises(BadAnchor, match="contradicts an earlier anchor of record 3"):
        read_anchors(text, key.verify_key.encode())
