import errno
import os
from pathlib import Path

import pytest

from dragoman.pipeline.storage import (
    exists,
    join,
    open_filesystem,
    plain_uri,
    read_bytes,
    spark_uri,
    storage_options,
    write_bytes,
)


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


def test_spark_has_its_own_name_of_s3() -> None:
    assert [spark_uri(f"{scheme}://b/x") for scheme in ("s3", "s3a", "s3n")] == ["s3a://b/x"] * 3
    assert [spark_uri(uri) for uri in ("/x", "hdfs://h/x")] == ["/x", "hdfs://h/x"]


@pytest.mark.parametrize(
    ("uri", "environment", "options"),
    [
        ("s3a://b", {"AWS_ENDPOINT_URL": "http://h:9000"}, {"allow_http": "true"}),
        ("s3://b", {"AWS_ENDPOINT_URL_S3": "http://h:9000"}, {"allow_http": "true"}),
        ("s3://b", {"AWS_ENDPOINT_URL": "https://h:9000"}, None),
        ("s3://b", {}, None),
        ("/folder", {"AWS_ENDPOINT_URL": "http://h:9000"}, None),
    ],
)
def test_an_endpoint_without_tls_is_allowed_because_it_was_named(
    uri: str, environment: dict[str, str], options: dict[str, str] | None
) -> None:
    assert storage_options(uri, environment) == options


def test_a_file_is_written_with_its_folder(tmp_path: Path) -> None:
    write_bytes(join(str(tmp_path), "a/b/c"), b"x")
    assert (tmp_path / "a" / "b" / "c").read_bytes() == b"x"


def test_a_file_without_a_folder_in_its_name_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_bytes("report.html", b"new")
    assert (tmp_path / "report.html").read_bytes() == b"new"


def test_the_file_behind_a_link_is_replaced_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_bytes(str(tmp_path / "link"), b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"
    write_bytes("/dev/null", b"new")
    assert Path("/dev/null").is_char_device()


def test_a_file_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = join(str(tmp_path), "manifest.json")
    write_bytes(uri, b"old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            write_bytes(uri, b"new and longer")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [
        ("manifest.json", b"old")
    ]
    write_bytes(uri, b"new")
    assert read_bytes(uri) == b"new"
