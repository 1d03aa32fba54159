"""Shared files on disk: listing, reading and writing, inside the shared roots only.

A URL is `nf://path`. The first step of the path may name a root; otherwise the path is in the root
without a name. Nothing outside the roots is ever opened. A path is resolved first and must be
inside its root. It is then opened step by step without following links, so a link put there in
between has no effect. All methods block on the disk: call them in a thread.
"""

import errno
import hashlib
import os
import re
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from io import FileIO
from math import inf
from pathlib import Path
from typing import Final
from unicodedata import normalize

from dragoman.model.value import value

SCHEME: Final = "nf://"
_LONGEST: Final = 4096
_PIECE: Final = 1 << 20
#: Digests in the cache, by device, inode, size and modification time.
_DIGESTS: Final = 10_000
_DAY: Final = 86_400.0
#: Seconds after which a part is of a dead upload. Nobody waits that long before the next piece.
_PART_AGE: Final = _DAY
_PART: Final = re.compile(r"\..+\.[0-9a-f]{16}\.part")
#: Seconds between two searches for old files.
_SWEEP_EVERY: Final = 3600.0
#: Names listed by one walk.
MOST_NAMES: Final = 100_000


class FileUnavailable(Exception):
    """A file does not exist or is not available. The message is for the caller."""


@value
class FileLocation:
    """A parsed URL: a root and the steps below it."""

    root: str
    steps: tuple[str, ...]
    url: str

    @property
    def name(self) -> str:
        """The last step."""
        return self.steps[-1] if self.steps else ""


@value
class Digests:
    """The digests of a file's content."""

    sha256: str
    md5: str


def read_url(url: object, roots: Mapping[str, Path]) -> FileLocation:
    """Parse a URL. Raises `FileUnavailable` if it could lead out of the roots."""
    if not isinstance(url, str) or not url.startswith(SCHEME):
        raise FileUnavailable(f"{url!r}: invalid URL format; a shared file is {SCHEME}path")
    rest = url.removeprefix(SCHEME).replace("\\", "/")
    if len(rest) > _LONGEST or not rest.isprintable():
        raise FileUnavailable(f"{url[:80]!r}: invalid URL path")
    steps = [step for step in rest.split("/") if step not in ("", ".")]
    # NFKC folds the full-width dots, which a file system may treat as plain dots.
    if any(set(normalize("NFKC", step)) <= {".", " "} for step in steps):
        raise FileUnavailable(f"{url!r}: invalid URL path")
    if steps and steps[0] in roots:
        return FileLocation(steps[0], tuple(steps[1:]), url)
    if "" not in roots:
        raise FileUnavailable(f"{url!r}: the broker shares no files there")
    return FileLocation("", tuple(steps), url)


class FileStore:
    """The shared roots and their files."""

    def __init__(
        self,
        roots: Mapping[str, Path],
        writable: frozenset[str] = frozenset(),
        largest: int = 0,
        keep_days: Mapping[str, float] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._roots = {name: Path(os.path.realpath(path)) for name, path in roots.items()}
        self._writable = writable
        #: Size limit of a put, in bytes.
        self._largest = largest
        self._keep_days = keep_days or {}
        self._clock = clock
        self._swept_at = 0.0
        self._putting = threading.Lock()
        self._digests: OrderedDict[tuple[int, ...], Digests] = OrderedDict()

    def place(self, url: object) -> FileLocation:
        """Parse a URL."""
        return read_url(url, self._roots)

    def roots(self) -> list[dict[str, object]]:
        """Return the URLs of the roots, and whether files may be put there."""
        return [
            {"url": f"{SCHEME}{name}", "is_writable": name in self._writable}
            for name in sorted(self._roots)
        ]

    # --- opening ------------------------------------------------------------------------------

    def open(self, url: object) -> FileIO:
        """Open a file for reading."""
        descriptor = self._descend(self.place(url), os.O_RDONLY | os.O_NONBLOCK)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise FileUnavailable(f"'{url}' file not found")
        return FileIO(descriptor, "rb")

    def _descend(self, place: FileLocation, flags: int) -> int:
        """Open a location without following a link out of its root."""
        root = self._roots[place.root]
        real = Path(os.path.realpath(root.joinpath(*place.steps)))
        if not real.is_relative_to(root):
            raise FileUnavailable(f"'{place.url}' - invalid URL path")
        try:
            return _open_beneath(root, real.relative_to(root).parts, flags)
        except OSError as error:
            if error.errno == errno.EACCES:
                raise FileUnavailable(f"'{place.url}': the broker may not read it") from None
            raise FileUnavailable(f"'{place.url}' file not found") from None

    def _folder(self, url: object) -> tuple[FileLocation, Path]:
        place = self.place(url)
        root = self._roots[place.root]
        real = Path(os.path.realpath(root.joinpath(*place.steps)))
        if not real.is_relative_to(root):
            raise FileUnavailable(f"'{url}' - invalid URL path")
        if not os.path.isdir(real):
            raise FileUnavailable("Directory Not Found")
        return place, real

    # --- listing ------------------------------------------------------------------------------

    def names(self, url: object) -> list[str]:
        """List the names in a folder; the top folder also lists the named roots."""
        place, real = self._folder(url)
        found = sorted(os.listdir(real))
        if place.root == "" and not place.steps:
            found += [name for name in self._roots if name and name not in found]
        return found

    def walk(self, url: object) -> list[str]:
        """List every file below a folder as a URL, without hidden files and `__x__` folders."""
        place, real = self._folder(url)
        root = self._roots[place.root]
        start = f"{SCHEME}{place.root}/" if place.root else SCHEME
        found: list[str] = []
        for path in _files_below(real):
            if not _is_listed(path.relative_to(real)):
                continue
            found.append(start + path.relative_to(root).as_posix())
            if len(found) >= MOST_NAMES:
                raise FileUnavailable(f"'{url}' has over {MOST_NAMES} files; walk a subfolder")
        return sorted(found)

    def details(self, url: object) -> dict[str, object]:
        """Return size and digests of a file."""
        with self.open(url) as file:
            state = os.fstat(file.fileno())
            digests = self._digests_of(file, state)
            return {
                "md5hash": digests.md5,
                "size_bytes": state.st_size,
                "exists": True,
                "sha256": digests.sha256,
                "modified": state.st_mtime,
            }

    def _digests_of(self, file: FileIO, state: os.stat_result) -> Digests:
        key = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)
        found = self._digests.get(key)
        if found is None:
            found = self._digests[key] = digest(file)
            if len(self._digests) > _DIGESTS:
                self._digests.popitem(last=False)
        return found

    # --- writing ------------------------------------------------------------------------------

    def put(
        self, url: object, offset: int, data: bytes, size: int, sha256: str
    ) -> dict[str, object]:
        """Store a piece of a new file; the last piece checks the digest and publishes the file."""
        # Several clients may put the same file at the same time.
        with self._putting:
            return self._put(url, offset, data, size, sha256)

    def _put(
        self, url: object, offset: int, data: bytes, size: int, sha256: str
    ) -> dict[str, object]:
        status = self.status(url, size, sha256)
        have = int(str(status["have"]))
        if offset != have or status["is_done"]:
            return status
        place = self.place(url)
        target = self._writable_path(place, size)
        if not have:
            self._sweep()
        part = _part_of(target, sha256)
        with part.open("ab") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        have += len(data)
        if have < size:
            return {"have": have, "is_done": False}
        self._finish(part, target, place, size, sha256)
        return {"have": have, "is_done": True}

    def status(self, url: object, size: int, sha256: str) -> dict[str, object]:
        """Return how many bytes of a new file have arrived. The same file counts as new."""
        target = self._writable_path(self.place(url), size)
        if target.is_file() and target.stat().st_size == size and self._is_same(url, sha256):
            # It is in use again: its age counts from now.
            os.utime(target)
            return {"have": size, "is_done": True}
        part = _part_of(target, sha256)
        return {"have": part.stat().st_size if part.exists() else 0, "is_done": False}

    def _is_same(self, url: object, sha256: str) -> bool:
        with self.open(url) as file:
            return self._digests_of(file, os.fstat(file.fileno())).sha256 == sha256

    def _sweep(self) -> None:
        """Remove old files and the parts of dead uploads, at most once in a while."""
        now = self._clock()
        if now - self._swept_at < _SWEEP_EVERY:
            return
        self._swept_at = now
        for root in self._writable & self._roots.keys():
            kept = self._keep_days.get(root, inf) * _DAY
            for path in _files_below(self._roots[root]):
                longest = min(kept, _PART_AGE) if _PART.fullmatch(path.name) else kept
                # Another process may remove it at the same moment.
                with suppress(OSError):
                    if now - path.stat().st_mtime > longest:
                        path.unlink()

    def remove(self, url: object) -> None:
        """Remove a file from a writable root."""
        place = self.place(url)
        target = self._writable_path(place, 0)
        if not target.is_file():
            raise FileUnavailable(f"'{url}' file not found")
        target.unlink()

    def _writable_path(self, place: FileLocation, size: int) -> Path:
        if place.root not in self._writable:
            raise FileUnavailable(f"'{place.url}': this root is not writable")
        if not place.steps or place.name.startswith("."):
            raise FileUnavailable(f"'{place.url}': a new file needs a name without a leading dot")
        if not 0 <= size <= self._largest:
            raise FileUnavailable(
                f"'{place.url}': {size} bytes; a put takes from 0 to {self._largest} bytes"
            )
        root = self._roots[place.root]
        folder = root.joinpath(*place.steps[:-1])
        if not Path(os.path.realpath(folder)).is_relative_to(root):
            raise FileUnavailable(f"'{place.url}' - invalid URL path")
        folder.mkdir(parents=True, exist_ok=True)
        target = Path(os.path.realpath(folder)) / place.name
        if target.is_symlink() or target.is_dir():
            raise FileUnavailable(f"'{place.url}': a folder or a link has this name")
        return target

    def _finish(
        self, part: Path, target: Path, place: FileLocation, size: int, sha256: str
    ) -> None:
        with part.open("rb", buffering=0) as file:
            found = digest(file).sha256
        if found != sha256 or part.stat().st_size != size:
            part.unlink()
            raise FileUnavailable(f"'{place.url}': size or digest is wrong; put the file again")
        part.replace(target)


def _open_beneath(root: Path, steps: tuple[str, ...], flags: int) -> int:
    """Open a path below a folder without following any link."""
    current = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for step in steps[:-1]:
            below = os.open(step, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=current)
            os.close(current)
            current = below
        return os.open(steps[-1] if steps else ".", flags | os.O_NOFOLLOW, dir_fd=current)
    finally:
        os.close(current)


def _part_of(target: Path, sha256: str) -> Path:
    """Return where the pieces of a new file are until it is whole."""
    return target.with_name(f".{target.name}.{sha256[:16]}.part")


def _is_listed(path: Path) -> bool:
    """Whether a walk lists a file: not a hidden one, nor one in a folder such as `__x__`."""
    *folders, name = path.parts
    hides = any(each.startswith("__") and each.endswith("__") for each in folders)
    return not name.startswith(".") and not hides


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield all files, parts of uploads too, without following links."""
    for where, _, files in os.walk(folder):
        for name in files:
            path = Path(where, name)
            if path.is_file() and not path.is_symlink():
                yield path


def digest(file: FileIO) -> Digests:
    """Read a file from its start and return its digests."""
    sha256, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    file.seek(0)
    while data := file.read(_PIECE):
        sha256.update(data)
        md5.update(data)
    return Digests(sha256.hexdigest(), md5.hexdigest())
