"""The policy on disk, followed while it changes."""

import os
from pathlib import Path

import pytest

from dragoman.security.policy_file import PolicyFile
from dragoman.security.policy_text import BadPolicy

ALICE = "[principals]\nalice = ['viewer']\n"


def write(path: Path, text: str) -> None:
    """Replace the file, as an editor does: another inode, so that the change is seen at once."""
    draft = path.with_name("draft")
    draft.write_text(text)
    os.replace(draft, path)


def test_a_missing_file_is_an_empty_policy(tmp_path: Path) -> None:
    file = PolicyFile(tmp_path / "policy.toml")
    assert file.policy.grants == {}
    assert not file.refresh()


def test_a_change_takes_effect_at_the_next_refresh(tmp_path: Path) -> None:
    file = PolicyFile(tmp_path / "policy.toml")
    write(file.path, ALICE)
    assert file.refresh()
    assert file.policy.roles_of("alice") == ("viewer",)
    assert not file.refresh()
    write(file.path, ALICE + "\n# a comment changes nothing\n")
    assert not file.refresh()
    file.path.unlink()
    assert file.refresh()
    assert file.policy.roles_of("alice") == ()


def test_a_broken_file_leaves_the_last_good_policy_in_force_and_is_reported_once(
    tmp_path: Path,
) -> None:
    path = tmp_path / "policy.toml"
    write(path, ALICE)
    file = PolicyFile(path)
    write(path, "[principals]\nalice = ['boss']\n")
    with pytest.raises(BadPolicy, match=r"policy\.toml: principals\.alice"):
        file.refresh()
    assert not file.refresh()
    assert file.policy.roles_of("alice") == ("viewer",)
    write(path, ALICE.replace("viewer", "admin"))
    assert file.refresh()


def test_a_broken_file_at_the_start_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_bytes(b"\xff")
    with pytest.raises(BadPolicy, match=r"policy\.toml"):
        PolicyFile(path)
