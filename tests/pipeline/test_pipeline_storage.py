from pathlib import Path

import pytest

from dragoman.pipeline.storage import exists, join, open_filesystem, plain_uri, read_bytes


@pytest.mark.parametrize(
    ("uri", "plain"),
    [
        ("s3a://bucket/x", "s3://bucket/x"),
        ("s3n://bucket/x", "s3://bucket/x"),
        ("s3://bucket/x", "s3://bucket/x"),
        ("file:///tmp/x", "/tmp/x"),
        ("data/tables", "data/tables"),
    ],
)
def test_a_location_has_one_name(uri: str, plain: str) -> None:
    assert plain_uri(uri) == plain


def test_names_are_joined_with_one_slash() -> None:
    assert join("s3://b/x/", "jobs", "y") == "s3://b/x/jobs/y"


def test_local_files_are_read_by_path_and_by_url(tmp_path: Path) -> None:
    (tmp_path / "a b").write_bytes(b"x")
    for root in (str(tmp_path), f"file://{tmp_path}"):
        assert read_bytes(join(root, "a b")) == b"x"
        assert exists(root)
        assert not exists(join(root, "none"))
        with pytest.raises(FileNotFoundError):
            read_bytes(join(root, "none"))
    assert open_filesystem(str(tmp_path))[1] == str(tmp_path)
