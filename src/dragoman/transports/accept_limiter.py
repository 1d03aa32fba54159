"""Limits how many new connections and failed handshakes a listener accepts.

A failed handshake costs a good part of a millisecond, mostly cryptography, in the thread that
carries every peer's messages. So failures are taken from a budget. If it is spent, a kernel filter
drops new connections for a moment: from the addresses to blame if they are few, else from all.
Open connections are not affected. A blocked client retries by itself: TCP repeats the SYN.
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

#: Handshakes that may fail per second in the long run, and in one burst.
FAILURES: Final = 100.0
FAILURES_AT_ONCE: Final = 200.0
#: New connections per second and in one burst: a whole fleet reconnects after a restart.
ARRIVALS: Final = 1000.0
ARRIVALS_AT_ONCE: Final = 1000.0
#: The reason under which a block is counted.
OVER_LIMIT: Final = "too many strangers"
#: Seconds that a block lasts.
PAUSE: Final = 0.5
#: Addresses that one filter can block.
MOST_BLAMED: Final = 60
#: Minimum failures before an address is blamed.
_MIN_FAILURES: Final = 3
_REMEMBERED: Final = 1000

_ATTACH: Final = 26
_DETACH: Final = 27
_INSTRUCTION: Final = struct.Struct("=HBBI")
#: Opcodes of the kernel's packet filter (BPF): load a byte or a word, jump, return.
_BYTE, _WORD, _JUMP_IF_SET, _JUMP_IF_EQUAL, _RETURN = 0x30, 0x20, 0x45, 0x15, 0x06
_FLAGS_AT: Final = 13
_SYN: Final = 0x02
#: The IPv4 source address, in the network header: a socket filter starts at the TCP header.
_SOURCE_AT: Final = (0x100000000 - 0x100000) + 12
_ACCEPT: Final = 0xFFFFFFFF
_DROP: Final = 0


class AcceptBudget:
    """A token bucket: a burst, and a rate per second."""

    def __init__(self, rate: float, at_once: float, now: float) -> None:
        self._rate = rate
        self._most = at_once
        self._left = at_once
        self._at = now

    def spend(self, now: float) -> bool:
        """Take one token; return whether one was left."""
        self._left = min(self._most, self._left + (now - self._at) * self._rate)
        self._at = now
        self._left = max(-self._most, self._left - 1)
        return self._left >= 0


class AcceptLimiter:
    """Blocks new connections at one listening socket while a budget is spent."""

    def __init__(
        self,
        on_block: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a limiter; `on_block` is called each time it starts or widens a block."""
        self._on_block = on_block
        self._clock = clock
        self._failures = AcceptBudget(FAILURES, FAILURES_AT_ONCE, clock())
        self._arrivals = AcceptBudget(ARRIVALS, ARRIVALS_AT_ONCE, clock())
        self._blame: Counter[str] = Counter()
        self._fd = -1
        self._unblock_timer: asyncio.TimerHandle | None = None
        #: The blocked addresses; empty: all addresses; None: no block.
        self.blocked: tuple[str, ...] | None = None

    def attach(self, fd: int) -> None:
        """Set the listening socket."""
        self._fd = fd

    def arrived(self) -> None:
        """Count a new connection."""
        if not self._arrivals.spend(self._clock()):
            self._block(())

    def failed(self, address: str = "") -> None:
        """Count a failed handshake, with the peer's address if it is known."""
        # A dual-stack listener reports IPv4 addresses in their IPv6 form.
        address = address.removeprefix("::ffff:")
        if len(self._blame) < _REMEMBERED:
            self._blame[address] += 1
        if self._failures.spend(self._clock()):
            return
        if self.blocked is None:
            self._block(self.blamed())
        elif address not in self.blocked:
            # Failures continue from other addresses: block all.
            self._block(())

    def blamed(self) -> tuple[str, ...]:
        """Return the addresses that cause most failures; empty if no few addresses do."""
        found = [
            a for a, n in self._blame.most_common(MOST_BLAMED) if n >= _MIN_FAILURES and _is_v4(a)
        ]
        is_most = 2 * sum(self._blame[a] for a in found) > self._blame.total()
        return tuple(found) if is_most else ()

    def close(self) -> None:
        """Forget the socket and cancel the timer."""
        self._fd = -1
        if self._unblock_timer is not None:
            self._unblock_timer.cancel()
            self._unblock_timer = None

    def _block(self, addresses: tuple[str, ...]) -> None:
        if self._fd < 0 or self.blocked == () or self.blocked == addresses:
            return
        self.blocked = addresses
        self._blame.clear()
        self._on_block()
        block_new_connections(self._fd, addresses)
        if self._unblock_timer is None:
            self._unblock_timer = asyncio.get_running_loop().call_later(PAUSE, self._unblock)

    def _unblock(self) -> None:
        self._unblock_timer = self.blocked = None
        allow_new_connections(self._fd)


def block_new_connections(fd: int, addresses: Sequence[str] = ()) -> bool:
    """Have the kernel drop new connections at a listening socket, from some addresses or all.

    Returns whether the kernel supports it; only Linux does.
    """
    text = b"".join(_INSTRUCTION.pack(*each) for each in program(addresses))
    held = ctypes.create_string_buffer(text, len(text))
    option_value = struct.pack("HL", len(text) // _INSTRUCTION.size, ctypes.addressof(held))
    return _set_option(fd, _ATTACH, option_value)


def allow_new_connections(fd: int) -> bool:
    """Remove the filter that drops new connections."""
    return _set_option(fd, _DETACH, b"\0\0\0\0")


def program(addresses: Sequence[str] = ()) -> list[tuple[int, int, int, int]]:
    """Return a BPF program that drops SYN packets and accepts everything else."""
    begins = [(_BYTE, 0, 0, _FLAGS_AT)]
    if not addresses:
        return [
            *begins,
            (_JUMP_IF_SET, 0, 1, _SYN),
            (_RETURN, 0, 0, _DROP),
            (_RETURN, 0, 0, _ACCEPT),
        ]
    tests = [
        # The jump skips the remaining tests and the accepting return; the dropping return follows.
        (_JUMP_IF_EQUAL, len(addresses) - number, 0, int(ipaddress.IPv4Address(address)))
        for number, address in enumerate(addresses)
    ]
    return [
        *begins,
        (_JUMP_IF_SET, 0, len(addresses) + 1, _SYN),
        (_WORD, 0, 0, _SOURCE_AT),
        *tests,
        (_RETURN, 0, 0, _ACCEPT),
        (_RETURN, 0, 0, _DROP),
    ]


def _set_option(fd: int, option: int, option_value: bytes) -> bool:
    if not hasattr(socket, "AF_PACKET"):
        return False
    try:
        with socket.socket(fileno=os.dup(fd)) as listener:
            listener.setsockopt(socket.SOL_SOCKET, option, option_value)
    except OSError:
        return False
    return True


def _is_v4(address: str) -> bool:
    try:
        return isinstance(ipaddress.ip_address(address), ipaddress.IPv4Address)
    except ValueError:
        return False
