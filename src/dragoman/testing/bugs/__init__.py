"""Planted bugs. Each breaks one promise, to prove that the simulation notices it.

Each is a context manager that replaces one function of the core or of the simulated server. They
resemble real mistakes: small, and correct most of the time. `planting` has the mechanism;
`durability`, `dispatch`, `timing`, `jobs`, `retries`, `limits`, `uniques`, `families`, `results`
and `hooks` have the bugs. Those of `outages` need worlds with outages, those of `mesh` linked
brokers.
"""

from typing import Final

from dragoman.testing.bugs import (
    dispatch,
    durability,
    families,
    hooks,
    jobs,
    limits,
    results,
    retries,
    timing,
    uniques,
)
from dragoman.testing.bugs.planting import Bug

#: All planted bugs by name.
THEMES: Final = (
    durability,
    dispatch,
    timing,
    jobs,
    retries,
    limits,
    uniques,
    families,
    results,
    hooks,
)
BUGS: Final[dict[str, Bug]] = {name: bug for theme in THEMES for name, bug in theme.BUGS.items()}
