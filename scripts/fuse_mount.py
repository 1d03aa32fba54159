"""Mounts a `VolatileDisk` by FUSE, the kernel's protocol for file systems in user space.

The numbers and layouts are those of the kernel's `linux/fuse.h`, version 7.31. A mount needs
`/dev/fuse` and the right to mount; `why_not` says what is missing.
"""

import ctypes
import errno
import os
import stat
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from scripts.volatile_disk import DiskDirectory, DiskFile, DiskNode, VolatileDisk

DEVICE: Final = "/dev/fuse"
_VERSION: Final = 7, 31
_REQUEST: Final = struct.Struct("<IIQQIIII")
_ANSWER: Final = struct.Struct("<IiQ")
_INIT: Final = struct.Struct("<IIIIHHIIHHI28x")
_ATTRIBUTES: Final = struct.Struct("<QQQQQQIIIIIIIIII")
_ENTRY: Final = struct.Struct("<QQQQII")
_OPENED: Final = struct.Struct("<QII")
_DIRECTORY_ENTRY: Final = struct.Struct("<QQII")
_SPACE: Final = struct.Struct("<QQQQQIII28x")
_LARGEST_WRITE: Final = 128 * 1024
_BUFFER: Final = _LARGEST_WRITE + 4096
#: Flags of INIT: writes above a page, and a number of pages.
_BIG_WRITES, _MAX_PAGES = 1 << 5, 1 << 22
#: The bit of SETATTR that says that a length is given.
_HAS_LENGTH: Final = 1 << 3
#: Seconds for which the kernel may remember names and attributes: it alone changes them.
_VALID: Final = 3600
_DETACH: Final = 2
_C: Final = ctypes.CDLL(None, use_errno=True)


def why_not() -> str:
    """Say why FUSE cannot be used here; empty: it can."""
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return f"{DEVICE} is missing or not ours to open"
    with open("/proc/self/status") as status:
        effective = next(line for line in status if line.startswith("CapEff"))
    if not int(effective.split()[1], 16) >> 21 & 1:
        return "this process has no right to mount (CAP_SYS_ADMIN)"
    return ""


class FuseMount:
    """A mounted disk, served by a thread, while the `with` block lasts."""

    def __init__(self, disk: VolatileDisk, folder: Path) -> None:
        self._disk = disk
        self._folder = folder
        self._device = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
        self._handlers: dict[int, Callable[[int, bytes], bytes]] = {
            1: self._lookup,
            3: lambda node, _: struct.pack("<QII", _VALID, 0, 0) + self._attributes(node),
            4: self._set_attributes,
            9: lambda node, body: self._add(node, body[8:], self._disk.new_directory()),
            10: self._remove,
            11: self._remove,
            12: lambda node, body: self._rename(node, body, 8),
            14: lambda node, body: _OPENED.pack(0, 0, 0),
            15: self._read,
            16: self._write,
            17: lambda node, body: _SPACE.pack(1 << 20, 1 << 20, 1 << 20, 0, 0, 4096, 255, 4096),
            18: lambda node, body: b"",
            20: self._sync,
            25: lambda node, body: b"",
            26: self._init,
            27: lambda node, body: _OPENED.pack(0, 0, 0),
            28: self._list,
            29: lambda node, body: b"",
            30: self._sync,
            35: self._create,
            45: lambda node, body: self._rename(node, body, 16),
        }
        self._thread = threading.Thread(target=self._serve, name="fuse", daemon=True)

    def __enter__(self) -> "FuseMount":
        options = f"fd={self._device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
        mounted = _C.mount(b"dragoman", os.fsencode(self._folder), b"fuse", 0, options.encode())
        if mounted:
            raise OSError(ctypes.get_errno(), "mount", str(self._folder))
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        _C.umount2(os.fsencode(self._folder), _DETACH)
        self._thread.join(30)
        os.close(self._device)

    # --- requests -----------------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            try:
                request = os.read(self._device, _BUFFER)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.ENOENT):
                    continue
                return  # ENODEV: unmounted
            self._answer(request)

    def _answer(self, request: bytes) -> None:
        _, operation, unique, node, *_ = _REQUEST.unpack_from(request)
        if operation in (2, 42, 36):  # FORGET, BATCH_FORGET, INTERRUPT have no answer
            return
        failure, found = 0, b""
        try:
            with self._disk.lock:
                if self._disk.is_cut:
                    raise OSError(errno.EIO, "the power is out")
                found = self._handlers[operation](node, request[_REQUEST.size :])
        except KeyError:
            failure = errno.ENOSYS
        except OSError as error:
            failure = error.errno or errno.EIO
        answer = _ANSWER.pack(_ANSWER.size + len(found), -failure, unique) + found
        try:
            os.write(self._device, answer)
        except OSError as error:
            if error.errno != errno.ENOENT:  # ENOENT: nobody waits for it any more
                raise

    def _init(self, node: int, body: bytes) -> bytes:
        _, _, ahead, flags = struct.unpack_from("<IIII", body)
        flags &= _BIG_WRITES | _MAX_PAGES
        pages = _LARGEST_WRITE // 4096
        return _INIT.pack(*_VERSION, ahead, flags, 16, 12, _LARGEST_WRITE, 1, pages, 0, 0)

    # --- names --------------------------------------------------------------------------------

    def _directory(self, number: int) -> DiskDirectory:
        found = self._disk.nodes[number]
        if not isinstance(found, DiskDirectory):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory")
        return found

    def _named(self, number: int, name: str) -> DiskNode:
        found = self._directory(number).entries.get(name)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, name)
        return found

    def _lookup(self, node: int, body: bytes) -> bytes:
        return self._entry(self._named(node, _name(body)))

    def _add(self, node: int, body: bytes, made: DiskNode) -> bytes:
        self._directory(node).change(**{_name(body): made})
        return self._entry(made)

    def _create(self, node: int, body: bytes) -> bytes:
        return self._add(node, body[16:], self._disk.new_file()) + _OPENED.pack(0, 0, 0)

    def _remove(self, node: int, body: bytes) -> bytes:
        found = self._named(node, _name(body))
        if isinstance(found, DiskDirectory) and found.entries:
            raise OSError(errno.ENOTEMPTY, _name(body))
        self._directory(node).change(**{_name(body): None})
        return b""

    def _rename(self, node: int, body: bytes, skipped: int) -> bytes:
        (target,) = struct.unpack_from("<Q", body)
        old, new = (os.fsdecode(each) for each in body[skipped:].split(b"\0")[:2])
        found = self._named(node, old)
        if target == node:
            self._directory(node).change(**{new: found, old: None})
        else:
            self._directory(target).change(**{new: found})
            self._directory(node).change(**{old: None})
        return b""

    def _list(self, node: int, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        found = b""
        entries = sorted(self._directory(node).entries.items())
        for number, (name, inner) in list(enumerate(entries, 1))[offset:]:
            text = os.fsencode(name)
            kind = stat.S_IFDIR if isinstance(inner, DiskDirectory) else stat.S_IFREG
            row = _DIRECTORY_ENTRY.pack(inner.number, number, len(text), kind >> 12) + text
            row += b"\0" * (-len(row) % 8)
            if len(found) + len(row) > size:
                break
            found += row
        return found

    # --- content ------------------------------------------------------------------------------

    def _file(self, number: int) -> DiskFile:
        found = self._disk.nodes[number]
        if not isinstance(found, DiskFile):
            raise IsADirectoryError(errno.EISDIR, "a directory")
        return found

    def _read(self, node: int, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        return bytes(self._file(node).content[offset : offset + size])

    def _write(self, node: int, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        self._file(node).write(offset, body[40 : 40 + size])
        self._disk.writes += 1
        return struct.pack("<II", size, 0)

    def _set_attributes(self, node: int, body: bytes) -> bytes:
        valid, _, _, size = struct.unpack_from("<IIQQ", body)
        if valid & _HAS_LENGTH:
            self._file(node).write(size, None)
        return struct.pack("<QII", _VALID, 0, 0) + self._attributes(node)

    def _sync(self, node: int, body: bytes) -> bytes:
        found = self._disk.nodes[node]
        found.sync()
        if isinstance(found, DiskFile):
            self._disk.syncs += 1
        else:
            self._disk.directory_syncs += 1
        return b""

    # --- attributes ---------------------------------------------------------------------------

    def _entry(self, node: DiskNode) -> bytes:
        return _ENTRY.pack(node.number, 0, _VALID, _VALID, 0, 0) + self._attributes(node.number)

    def _attributes(self, number: int) -> bytes:
        node = self._disk.nodes[number]
        is_file = isinstance(node, DiskFile)
        size = len(node.content) if isinstance(node, DiskFile) else 4096
        mode = stat.S_IFREG | 0o600 if is_file else stat.S_IFDIR | 0o700
        times = (0,) * 6
        owner = os.getuid(), os.getgid()
        return _ATTRIBUTES.pack(number, size, -(-size // 512), *times, mode, 1, *owner, 0, 4096, 0)


def _name(body: bytes) -> str:
    return os.fsdecode(body.split(b"\0", 1)[0])
