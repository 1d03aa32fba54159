"""`python -m benches [NAME ...]`: run the benches, all or those named, and print a table.

A bench is a module `bench_NAME` with `run() -> list[(what, figure, unit)]`.
"""

import importlib
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table


def names() -> list[str]:
    return sorted(p.stem.removeprefix("bench_") for p in Path(__file__).parent.glob("bench_*.py"))


def main(wanted: list[str]) -> int:
    known = names()
    if "--help" in wanted or "-h" in wanted:
        print(f"{__doc__}\nThere are: {', '.join(known)}")
        return 0
    if unknown := [name for name in wanted if name not in known]:
        print(f"no bench {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    for name in wanted or known:
        bench = importlib.import_module(f"benches.bench_{name}")
        if not hasattr(bench, "run"):
            print(f"bench_{name} is run by itself: python -m benches.bench_{name}\n")
            continue
        begun = time.monotonic()
        table = Table("what", "figure", "unit", title=name, box=None, header_style="bold")
        table.columns[1].justify = "right"
        for what, figure, unit in bench.run():
            table.add_row(what, written(figure), unit)
        Console().print(table)
        print(f"({time.monotonic() - begun:.0f} s)\n", flush=True)
    return 0


def written(figure: float) -> str:
    """Format a figure with its significant digits."""
    return f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:,.2f}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
