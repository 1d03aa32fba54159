"""Logins with a name and a password.

The slow hash runs in a thread of its own, one at a time, and few wait for it: strangers can use at
most one core, and only as long as the budget of failed logins lasts. An unknown name takes the same
way as a known one.
"""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from dragoman.model.names import Principal
from dragoman.security.login_budget import LoginBudget
from dragoman.security.passwords import LONGEST, NOBODY, is_right
from dragoman.security.registry import KeyRegistry

#: Logins whose hash runs or waits, at most.
MOST_WAITING: Final = 8
#: Seconds after which a login that found no place may be tried again.
_TRY_AGAIN: Final = 2.0
#: Called with whether it was accepted, what happened, and the principal if it is known.
LoginReport = Callable[[bool, str, Principal | None], None]


class PasswordLogins:
    """The passwords of one registry."""

    def __init__(
        self,
        registry: KeyRegistry,
        refresh: Callable[[], None],
        now: Callable[[], float],
        report: LoginReport,
        compare: Callable[[str, str], bool] = is_right,
    ) -> None:
        self._registry = registry
        self._refresh = refresh
        self._now = now
        self._report = report
        self._compare = compare
        self._budget = LoginBudget()
        self._pool = ThreadPoolExecutor(1, "dragoman passwords")
        self._waiting = 0

    @property
    def is_on(self) -> bool:
        """Whether anybody has a password."""
        return self._registry.has_passwords(self._now())

    async def check(self, name: str, password: str, address: str) -> tuple[str, float]:
        """Return the key of a right password, else an empty one, and the seconds to wait.

        If there is something to wait for, the password was not looked at.
        """
        if self._registry.is_stale:
            self._refresh()
        wait = self._budget.take(name, address, self._now())
        if wait or self._waiting >= MOST_WAITING:
            reason = "too many failed logins" if wait else "too many logins at once"
            self._refuse(name, address, reason)
            return "", wait or _TRY_AGAIN
        key, stored = self._registry.password_of(name, self._now()) or ("", NOBODY)
        right = await self._is_right(password[: LONGEST + 1], stored)
        # Revoked or replaced while the hash was made: the key is not admitted any more.
        if not key or not right or not self._registry.admits(key, self._now()):
            self._refuse(name, address, "wrong name or password")
            return "", 0.0
        self._budget.give_back(name, address, self._now())
        self._report(True, f"login with a password from {address}", Principal(name))
        return key, 0.0

    async def _is_right(self, password: str, stored: str) -> bool:
        self._waiting += 1
        hashing = self._pool.submit(self._compare, password, stored)
        loop = asyncio.get_running_loop()
        # The thread is busy until the hash is made, also if the caller leaves before.
        hashing.add_done_callback(lambda _: self._done(loop))
        return await asyncio.wrap_future(hashing)

    def _done(self, loop: asyncio.AbstractEventLoop) -> None:
        """Note in the loop that a place is free, unless the broker has stopped."""
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._leave)

    def _leave(self) -> None:
        self._waiting -= 1

    def _refuse(self, name: str, address: str, reason: str) -> None:
        # An unknown name may be a password in the wrong field: it is not recorded.
        known = self._registry.password_of(name, self._now()) is not None
        who = Principal(name) if known else None
        self._report(False, f"login with a password from {address}: {reason}", who)
