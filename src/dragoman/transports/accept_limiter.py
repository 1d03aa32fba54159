"""How many strangers may knock at a listener: a budget, and what happens when it is spent.

A handshake that fails costs a listener a good part of a millisecond, mostly of cryptography, in the
thread that carries everybody's messages. So failures are paid from a budget. When it is spent, the
kernel is asked to take no new connections for a moment, from the addresses to blame if they are
few, or else from everywhere. Connections that are there notice nothing. Those that were turned away
try again by themselves: TCP repeats what began a connection.
"""

import asyncio
import ctypes
import ipaddress
import os
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

#: Handshakes that may fail in a second for ever, and at once after a calm.
FAILURES: Final = 100.0
FAILURES_AT_ONCE: Final = 200.0
#: Connections that may begin: so many honest peers come when a broker was started again.
ARRIVALS: Final = 1000.0
ARRIVALS_AT_ONCE: Final = 1000.0
#: What is counted when that happens.
OVER_LIMIT: Final = "too many strangers"
#: Seconds for which nobody is let in.
PAUSE: Final = 0.5
#: Addresses that can be turned away by name.
MOST_BLAMED: Final = 60
#: Fewer failures than this are anybody's.
_LEAST: Final = 3
_REMEMBERED: Final = 1000

_ATTACH: Final = 26
_DETACH: Final = 27
_INSTRUCTION: Final = struct.Struct("=HBBI")
#: Words of the kernel's packet filter: load a byte or a word, jump, return.
_BYTE, _WORD, _JUMP_IF_SET, _JUMP_IF_EQUAL, _RETURN = 0x30, 0x20, 0x45, 0x15, 0x06
_FLAGS_AT: Final = 13
_SYN: Final = 0x02
#: The source address in the header of IPv4, which lies before what a filter of a socket sees.
_SOURCE_AT: Final = (0x100000000 - 0x100000) + 12
_KEEP: Final = 0xFFFFFFFF
_DROP: Final = 0


class AcceptBudget:
    """So many at once, and so many a second."""

    def __init__(self, rate: float, at_once: float, now: float) -> None:
        self._rate = rate
        self._most = at_once
        self._left = at_once
        self._at = now

    def spend(self, now: float) -> bool:
        """Take one; tell whether there was one left."""
        self._left = min(self._most, self._left + (now - self._at) * self._rate)
        self._at = now
        self._left = max(-self._most, self._left - 1)
        return self._left >= 0


class AcceptLimiter:
    """One listening socket, and who may come to it."""

    def __init__(
        self,
        note: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; `note` is told each time that somebody is turned away."""
        self._note = note
        self._clock = clock
        self._failures = AcceptBudget(FAILURES, FAILURES_AT_ONCE, clock())
        self._arrivals = AcceptBudget(ARRIVALS, ARRIVALS_AT_ONCE, clock())
        self._blame: Counter[str] = Counter()
        self._fd = -1
        self._opens: asyncio.TimerHandle | None = None
        #: Who is turned away; empty: everybody. None: nobody.
        self.shut_for: tuple[str, ...] | None = None

    def attach(self, fd: int) -> None:
        """Know the listening socket."""
        self._fd = fd

    def arrived(self) -> None:
        """Count a new connection."""
        if not self._arrivals.spend(self._clock()):
            self._shut(())

    def failed(self, address: str = "") -> None:
        """Count a handshake that failed, from an address if that is known."""
        # A listener for both kinds of addresses has those of IPv4 in the form of IPv6.
        address = address.removeprefix("::ffff:")
        if len(self._blame) < _REMEMBERED:
            self._blame[address] += 1
        if self._failures.spend(self._clock()):
            return
        if self.shut_for is None:
            self._shut(self.blamed())
        elif address not in self.shut_for:
            # It goes on from elsewhere; those who are shut out had begun before.
            self._shut(())

    def blamed(self) -> tuple[str, ...]:
        """Return the addresses that most failures come from; empty if it cannot be said."""
        found = [a for a, n in self._blame.most_common(MOST_BLAMED) if n >= _LEAST and _is_v4(a)]
        is_most = 2 * sum(self._blame[a] for a in found) > self._blame.total()
        return tuple(found) if is_most else ()

    def close(self) -> None:
        """Have nothing more to do with it."""
        self._fd = -1
        if self._opens is not None:
            self._opens.cancel()
            self._opens = None

    def _shut(self, addresses: tuple[str, ...]) -> None:
        if self._fd < 0 or self.shut_for == () or self.shut_for == addresses:
            return
        self.shut_for = addresses
        self._blame.clear()
        self._note()
        block_new_connections(self._fd, addresses)
        if self._opens is None:
            self._opens = asyncio.get_running_loop().call_later(PAUSE, self._open)

    def _open(self) -> None:
        self._opens = self.shut_for = None
        allow_new_connections(self._fd)


def block_new_connections(fd: int, addresses: Sequence[str] = ()) -> bool:
    """Take no new connections at a listening socket, from some addresses or from everywhere.

    Returns whether the kernel could be asked; only Linux can.
    """
    text = b"".join(_INSTRUCTION.pack(*each) for each in program(addresses))
    held = ctypes.create_string_buffer(text, len(text))
    said = struct.pack("HL", len(text) // _INSTRUCTION.size, ctypes.addressof(held))
    return _ask(fd, _ATTACH, said)


def allow_new_connections(fd: int) -> bool:
    """Take new connections again."""
    return _ask(fd, _DETACH, b"\0\0\0\0")


def program(addresses: Sequence[str] = ()) -> list[tuple[int, int, int, int]]:
    """Write a filter that drops what begins a connection, and nothing that belongs to one."""
    begins = [(_BYTE, 0, 0, _FLAGS_AT)]
    if not addresses:
        return [*begins, (_JUMP_IF_SET, 0, 1, _SYN), (_RETURN, 0, 0, _DROP), (_RETURN, 0, 0, _KEEP)]
    tests = [
        # Those still to come, then the one that keeps: the one that drops is after it.
        (_JUMP_IF_EQUAL, len(addresses) - number, 0, int(ipaddress.IPv4Address(address)))
        for number, address in enumerate(addresses)
    ]
    return [
        *begins,
        (_JUMP_IF_SET, 0, len(addresses) + 1, _SYN),
        (_WORD, 0, 0, _SOURCE_AT),
        *tests,
        (_RETURN, 0, 0, _KEEP),
        (_RETURN, 0, 0, _DROP),
    ]


def _ask(fd: int, option: int, said: bytes) -> bool:
    if not hasattr(socket, "AF_PACKET"):
        return False
    try:
        with socket.socket(fileno=os.dup(fd)) as listener:
            listener.setsockopt(socket.SOL_SOCKET, option, said)
    except OSError:
        return False
    return True


def _is_v4(address: str) -> bool:
    try:
        return isinstance(ipaddress.ip_address(address), ipaddress.IPv4Address)
    except ValueError:
        return False
