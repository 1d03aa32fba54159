"""A disk in memory with a cache that a power cut empties: what was not synced may be lost.

Files and directories have a synced state and changes since. A sync of a file makes its content
durable, a sync of a directory its entries: no more than POSIX promises. A power cut keeps some of
the changes: of a directory the first few, of a file any, and a write may be torn at a sector.
"""

import random
import threading
from collections.abc import Iterable, Iterator
from typing import Final

SECTOR: Final = 512
#: A write or, without data, a new length of the file.
Write = tuple[int, bytes | None]


def apply_writes(content: bytearray, writes: Iterable[Write]) -> None:
    """Change a file's content as some writes do."""
    for offset, data in writes:
        content.extend(b"\0" * (offset - len(content)))
        if data is None:
            del content[offset:]
        else:
            content[offset : offset + len(data)] = data


class BrokenPromise(Exception):
    """Something that was promised is missing after a power cut."""


class DiskFile:
    """A file: its content now, its synced content, and the writes between them."""

    def __init__(self, number: int, content: bytes = b"") -> None:
        self.number = number
        self.content = bytearray(content)
        self.synced = bytearray(content)
        self.unsynced: list[Write] = []

    def write(self, offset: int, data: bytes | None) -> None:
        """Write data, or set the length."""
        apply_writes(self.content, [(offset, data)])
        self.unsynced.append((offset, data))

    def sync(self) -> None:
        """Make the content durable."""
        apply_writes(self.synced, self.unsynced)
        self.unsynced.clear()

    def after_cut(self, dice: random.Random) -> bytes:
        """Return the content that a power cut leaves."""
        left = bytearray(self.synced)
        apply_writes(left, self._kept(dice))
        return bytes(left)

    def _kept(self, dice: random.Random) -> Iterator[Write]:
        for offset, data in self.unsynced:
            fate = dice.randrange(3)
            if fate == 0 and data is not None:
                yield offset, data[: dice.randrange(0, len(data) + 1, SECTOR)]
            elif fate < 2:
                yield offset, data


class DiskDirectory:
    """A directory: its entries now, its synced entries, and the changes between them."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.entries: dict[str, DiskNode] = {}
        self.synced: dict[str, DiskNode] = {}
        self.unsynced: list[dict[str, DiskNode | None]] = []

    def change(self, **entries: "DiskNode | None") -> None:
        """Add entries, or remove those that are None, in one step."""
        _set_entries(self.entries, entries)
        self.unsynced.append(entries)

    def sync(self) -> None:
        """Make the entries durable."""
        self.synced = dict(self.entries)
        self.unsynced.clear()

    def entries_after_cut(self, dice: random.Random) -> "dict[str, DiskNode]":
        """Return the entries that a power cut leaves: a journal keeps the order of changes."""
        left = dict(self.synced)
        for entries in self.unsynced[: dice.randint(0, len(self.unsynced))]:
            _set_entries(left, entries)
        return left


DiskNode = DiskFile | DiskDirectory


def _set_entries(found: dict[str, DiskNode], changes: dict[str, DiskNode | None]) -> None:
    for name, node in changes.items():
        if node is None:
            found.pop(name, None)
        else:
            found[name] = node


class VolatileDisk:
    """A tree of files. After `cut` it can no longer be used; what is left is another disk."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.nodes: dict[int, DiskNode] = {}
        self.root = self.new_directory()
        self.is_cut = False
        #: Syncs of files and of directories, writes.
        self.syncs = self.directory_syncs = self.writes = 0

    def new_file(self, content: bytes = b"") -> DiskFile:
        """Make a file that has no name yet."""
        file = DiskFile(len(self.nodes) + 1, content)
        self.nodes[file.number] = file
        return file

    def new_directory(self) -> DiskDirectory:
        """Make a directory that has no name yet."""
        directory = DiskDirectory(len(self.nodes) + 1)
        self.nodes[directory.number] = directory
        return directory

    def cut(self, dice: random.Random) -> "VolatileDisk":
        """Cut the power now; return the disk that is left."""
        with self.lock:
            self.is_cut = True
            left = VolatileDisk()
            left._copy(self.root, left.root, dice)
        return left

    def _copy(self, found: DiskDirectory, left: DiskDirectory, dice: random.Random) -> None:
        for name, node in sorted(found.entries_after_cut(dice).items()):
            if isinstance(node, DiskFile):
                left.change(**{name: self.new_file(node.after_cut(dice))})
                continue
            inner = self.new_directory()
            self._copy(node, inner, dice)
            left.change(**{name: inner})
        left.sync()
