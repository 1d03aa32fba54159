"""`scripts/tag-release` tags what the changelog describes, and nothing else."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.process


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with one release to make."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "tag-release", tmp_path / "scripts")
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(
        "## [Unreleased]\n\n## [1.2.0]: 2026-01-02\n\n- A thing.\n\n## [1.1.0]\n\n- Old.\n"
    )
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "Release: 1.2.0")
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


def tag(folder: Path) -> subprocess.CompletedProcess[str]:
    names = {"GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@example.com", "HOME": str(folder)}
    return subprocess.run(
        ["bash", "scripts/tag-release"],
        cwd=folder,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", **names},
        check=False,
    )


def test_the_tag_has_the_section_of_the_changelog(tree: Path) -> None:
    assert tag(tree).returncode == 0
    text = git(tree, "tag", "-l", "-n99", "v1.2.0")
    assert "A thing." in text
    assert "Old." not in text


def test_a_second_tag_is_refused(tree: Path) -> None:
    tag(tree)
    again = tag(tree)
    assert again.returncode == 1
    assert "the tag v1.2.0 exists" in again.stderr


def test_a_version_without_a_section_is_refused(tree: Path) -> None:
    (tree / "pyproject.toml").write_text('version = "9.9.9"\n')
    git(tree, "commit", "-qam", "bump")
    assert "no section [9.9.9]" in tag(tree).stderr


def test_a_tree_with_changes_is_refused(tree: Path) -> None:
    (tree / "CHANGELOG.md").write_text("## [1.2.0]\n\n- Changed.\n")
    assert "not clean" in tag(tree).stderr
