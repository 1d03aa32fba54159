"""A budget of failed logins, so that passwords cannot be guessed fast. Pure: time is an argument.

Names and addresses have budgets of their own, and there is one for all together. A name that does
not exist has one like any other.
"""

from collections import OrderedDict
from typing import Final

from dragoman.model.value import value

#: Names and addresses that are remembered; the one that failed longest ago is forgotten first.
_MOST: Final = 10_000
_ALL: Final = "all"


@value
class LoginRate:
    """So many failures at once, then one in so many seconds."""

    burst: int
    every: float


OF_A_NAME: Final = LoginRate(10, 30.0)
OF_AN_ADDRESS: Final = LoginRate(10, 6.0)
#: A hash takes a third of a second, so a flood uses an eighth of a core.
OF_ALL: Final = LoginRate(30, 3.0)


class Attempts:
    """Token buckets by name."""

    def __init__(self, rate: LoginRate) -> None:
        self._rate = rate
        #: What is left, and when that was so.
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, who: str, now: float) -> float:
        """Return the seconds until another attempt may be made; 0: now."""
        return max(0.0, 1.0 - self._now_left(who, now)) * self._rate.every

    def change(self, who: str, by: float, now: float) -> None:
        """Take an attempt away, or give it back."""
        left = min(float(self._rate.burst), self._now_left(who, now) + by)
        self._left[who] = left, now
        self._left.move_to_end(who)
        if len(self._left) > _MOST:
            self._left.popitem(last=False)

    def _now_left(self, who: str, now: float) -> float:
        left, at = self._left.get(who, (float(self._rate.burst), now))
        return min(float(self._rate.burst), left + max(0.0, now - at) / self._rate.every)


class LoginBudget:
    """The attempts of names, of addresses, and of all."""

    def __init__(self) -> None:
        self._buckets = [Attempts(each) for each in (OF_A_NAME, OF_AN_ADDRESS, OF_ALL)]

    def take(self, name: str, address: str, now: float) -> float:
        """Take an attempt. Return 0, or the seconds to wait: then none is taken."""
        pairs = list(zip(self._buckets, (name, address, _ALL), strict=True))
        wait = max(bucket.wait(who, now) for bucket, who in pairs)
        if not wait:
            for bucket, who in pairs:
                bucket.change(who, -1.0, now)
        return wait

    def give_back(self, name: str, address: str, now: float) -> None:
        """Give the attempt of a login back that succeeded."""
        for bucket, who in zip(self._buckets, (name, address, _ALL), strict=True):
            bucket.change(who, 1.0, now)
