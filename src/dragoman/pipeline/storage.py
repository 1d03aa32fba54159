"""Files of exports and tables outside of Spark: one way to name, find and read them.

pyarrow's file systems do the work: local folders, `s3://`, `gs://`, `hdfs://`. Credentials come
from the usual environment of each (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, ...).
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

#: Hadoop's names of S3, which pyarrow does not know.
_SCHEMES: Final = {"s3a://": "s3://", "s3n://": "s3://"}


def join(root: str, *names: str) -> str:
    """Return the path of something below a root."""
    return "/".join([root.rstrip("/"), *names])


def plain_uri(uri: str) -> str:
    """Return a location as pyarrow and delta-rs name it."""
    for theirs, ours in _SCHEMES.items():
        if uri.startswith(theirs):
            return ours + uri.removeprefix(theirs)
    return uri.removeprefix("file://")


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
