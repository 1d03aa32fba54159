"""Planted bugs: each breaks one promise, so that the simulator can show that it would notice.

Each is a context manager that replaces one function of the core or of the simulated server. They
are what such bugs look like when somebody makes them by hand: small, and right most of the time.
`planting` says how; `durability`, `dispatch`, `timing` and `jobs` say which promise.
"""

from typing import Final

from dragoman.testing.bugs import dispatch, durability, jobs, timing
from dragoman.testing.bugs.planting import Bug

#: All of them, by name.
BUGS: Final[dict[str, Bug]] = {
    **durability.BUGS,
    **dispatch.BUGS,
    **timing.BUGS,
    **jobs.BUGS,
}
