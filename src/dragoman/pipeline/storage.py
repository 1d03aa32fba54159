"""Files of exports and tables outside of Spark: one way to name, find, read and write them.

pyarrow's file systems do the work: local folders, `s3://`, `gs://`, `hdfs://`. Credentials come
from the usual environment of each (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, ...).
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

#: Hadoop's names of S3, which pyarrow does not know.
_SCHEMES: Final = {"s3a://": "s3://", "s3n://": "s3://"}
_WITHOUT_FOLDERS: Final = frozenset({"s3", "gcs", "abfs"})


def join(root: str, *names: str) -> str:
    """Return the path of something below a root."""
    return "/".join([root.rstrip("/"), *names])


def plain_uri(uri: str) -> str:
    """Return a location as pyarrow and delta-rs name it."""
    for theirs, ours in _SCHEMES.items():
        if uri.startswith(theirs):
            return ours + uri.removeprefix(theirs)
    return uri.removeprefix("file://")


def spark_uri(uri: str) -> str:
    """Return a location as Spark names it: Hadoop's file system of S3 is `s3a`."""
    plain = plain_uri(uri)
    return f"s3a://{plain.removeprefix('s3://')}" if plain.startswith("s3://") else uri


def storage_options(uri: str, environment: Mapping[str, str] = os.environ) -> dict[str, str] | None:
    """Return what delta-rs does not take from the environment: whether HTTP will do.

    pyarrow speaks the scheme of the endpoint. delta-rs refuses `http://` unless it is told.
    """
    if not plain_uri(uri).startswith("s3://"):
        return None
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL", "")
    return {"allow_http": "true"} if endpoint.startswith("http://") else None


def open_filesystem(uri: str) -> "tuple[FileSystem, str]":
    """Return the file system of a location, and the path in it."""
    from pyarrow import fs

    plain = plain_uri(uri)
    if "://" not in plain:
        return fs.LocalFileSystem(), plain
    return fs.FileSystem.from_uri(plain)


def read_bytes(uri: str) -> bytes:
    """Return the content of a file; raises FileNotFoundError if there is none."""
    system, path = open_filesystem(uri)
    with system.open_input_stream(path) as stream:
        return bytes(stream.read())


def exists(uri: str) -> bool:
    """Whether there is a file or folder."""
    from pyarrow import fs

    system, path = open_filesystem(uri)
    return bool(system.get_file_info(path).type != fs.FileType.NotFound)


def is_file(uri: str) -> bool:
    """Whether there is a file, and no folder."""
    from pyarrow import fs

    system, path = open_filesystem(uri)
    return bool(system.get_file_info(path).type == fs.FileType.File)


def write_bytes(uri: str, data: bytes) -> None:
    """Write a file. In a folder and on object stores it appears whole or not at all."""
    system, path = open_filesystem(uri)
    make_parent(system, path)
    if system.type_name == "local":
        _replace_file(Path(path), data)
        return
    with system.open_output_stream(path) as stream:
        stream.write(data)


def _replace_file(path: Path, data: bytes) -> None:
    """Replace a file in one step: a kill or a full disk leaves the old one."""
    if path.exists() and not path.is_file():
        path.write_bytes(data)  # a pipe or a terminal, such as /dev/stdout
        return
    path = path.resolve()  # the file behind a link, not the link
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            # A manifest on the disk names no segment that is not there, after a power failure too.
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def make_parent(system: "FileSystem", path: str) -> None:
    """Create the folder of a file. Object stores have none, and would store an empty object."""
    folder = path.rpartition("/")[0]
    if folder and system.type_name not in _WITHOUT_FOLDERS:
        system.create_dir(folder, recursive=True)
