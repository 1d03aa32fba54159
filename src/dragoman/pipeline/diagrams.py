"""Diagrams of the report as SVG text: flows between columns, and lanes of intervals. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from dragoman.pipeline.charts import COLOURS, WIDTH, count, rectangle, svg, text, when

_TOP: Final = 10.0
_GAP: Final = 8.0
_NODE: Final = 12.0
#: Height of all flows together, and the least height of a node.
_HEIGHT: Final = 260.0
_LEAST: Final = 12.0
_SIDE: Final = 120.0
_LANE: Final = 7.0
#: Most lanes of a worker; more intervals at one time share the last.
_MOST_LANES: Final = 8

Way = tuple[str, str, str]


@dataclass(frozen=True)
class Lane:
    """One interval of a row, drawn beside others of the same time."""

    start: float
    end: float
    colour: str
    title: str


@dataclass
class _Node:
    y: float
    height: float
    #: Where the next flow leaves on each side.
    left: float
    right: float


def flow_chart(flows: Mapping[Way, float], title: str) -> str:
    """Draw flows over three columns of nodes; the width of a flow is its share of the whole."""
    total = sum(flows.values()) or 1
    columns = [_column([(way[n], size) for way, size in flows.items()], total) for n in range(3)]
    xs = (_SIDE, (WIDTH - _NODE) / 2, WIDTH - _SIDE - _NODE)
    names = sorted({way[0] for way in flows})
    parts = []
    for way, size in sorted(flows.items()):
        colour = COLOURS[names.index(way[0]) % len(COLOURS)]
        tip = f"{' to '.join(way)}: {size:,.0f}"
        for n in (0, 1):
            ends = (columns[n][way[n]], columns[n + 1][way[n + 1]])
            parts.append(_ribbon(xs[n] + _NODE, xs[n + 1], *ends, size / total, colour, tip))
    for n, (column, x) in enumerate(zip(columns, xs, strict=True)):
        parts += [_label(n, x, name, node, flows) for name, node in column.items()]
    bottom = max((node.y + node.height for c in columns for node in c.values()), default=_TOP)
    return svg("".join(parts), bottom + _TOP, title)


def _column(ways: Sequence[tuple[str, float]], total: float) -> dict[str, _Node]:
    """Place the nodes of a column, the largest first."""
    sizes: dict[str, float] = {}
    for name, size in ways:
        sizes[name] = sizes.get(name, 0) + size
    nodes, y = {}, _TOP
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        height = max(_LEAST, _HEIGHT * sizes[name] / total)
        nodes[name] = _Node(y, height, y, y)
        y += height + _GAP
    return nodes


def _ribbon(
    x1: float, x2: float, start: _Node, end: _Node, share: float, colour: str, tip: str
) -> str:
    width = max(_HEIGHT * share, 0.7)
    y1, y2, middle = start.right + width / 2, end.left + width / 2, (x1 + x2) / 2
    start.right, end.left = start.right + _HEIGHT * share, end.left + _HEIGHT * share
    curve = f"M{x1:.1f} {y1:.1f}C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
    look = f'fill="none" stroke="{colour}" stroke-opacity="0.45" stroke-width="{width:.1f}"'
    return f'<path d="{curve}" {look}><title>{escape(tip)}</title></path>'


def _label(n: int, x: float, name: str, node: _Node, flows: Mapping[Way, float]) -> str:
    size = sum(s for way, s in flows.items() if way[n] == name)
    words = f"{name} \u00b7 {count(size)}"
    box = rectangle(x, node.y, _NODE, node.height, "var(--c7)", words)
    place, anchor = ((x - 6, "end"), (x + _NODE + 6, "start"), (x + _NODE + 6, "start"))[n]
    return box + text(place, node.y + min(node.height / 2, 40) + 4, words, anchor, "label")


def lane_chart(rows: Mapping[str, Sequence[Lane]], title: str) -> str:
    """Draw the intervals of each row; those that overlap get lanes of their own."""
    every = [bar for bars in rows.values() for bar in bars]
    first, last = min(b.start for b in every), max(b.end for b in every)
    left = 16 + 7.2 * max(len(name) for name in rows)
    scale = (WIDTH - left - 12) / max(last - first, 0.001)
    parts, y = [], _TOP
    for name, bars in rows.items():
        numbers = assign_lanes(bars)
        parts.append(text(left - 8, y + 9, name, "end"))
        for bar, number in zip(bars, numbers, strict=True):
            x, w = left + (bar.start - first) * scale, max((bar.end - bar.start) * scale, 0.8)
            box = (x, y + number * _LANE, w, _LANE - 1)
            parts.append(rectangle(*box, bar.colour, bar.title))
        y += max((max(numbers) + 1) * _LANE, 12.0) + 4
    for n in range(5):
        at = first + (last - first) * n / 4
        anchor = ("start", "middle", "middle", "middle", "end")[n]
        parts.append(text(left + (at - first) * scale, y + 14, when(at, last - first), anchor))
    return svg("".join(parts), y + 20, title)


def assign_lanes(bars: Sequence[Lane]) -> list[int]:
    """Return the number of a lane for each interval: the first that is free at its start."""
    ends: list[float] = []
    numbers = []
    for bar in bars:
        free = next((n for n, end in enumerate(ends) if end <= bar.start), len(ends))
        free = min(free, _MOST_LANES - 1)
        if free == len(ends):
            ends.append(bar.end)
        ends[free] = max(ends[free], bar.end)
        numbers.append(free)
    return numbers
