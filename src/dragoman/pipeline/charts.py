"""Charts of the report as SVG text. Pure: numbers in, text out; no scripts, no fonts to load.

Colours are CSS variables of the page, so charts follow its light and dark themes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Final

WIDTH: Final = 920
_LEFT: Final = 56
_RIGHT: Final = 12
_TOP: Final = 10
_BOTTOM: Final = 24
#: Cells wider than this show their value.
_ROOM: Final = 60
#: The darkest cell of a heat map: text on it is readable in the light and in the dark theme.
DARKEST: Final = 0.55
COLOURS: Final = tuple(f"var(--c{n})" for n in range(1, 8))


@dataclass(frozen=True)
class Bar:
    """One interval in a row of a timeline; `shade` is from 0 to 1."""

    start: float
    end: float
    shade: float
    title: str


def svg(body: str, height: float, title: str) -> str:
    """Wrap drawings in a chart that scales with the page."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"{body}</svg>"
    )


def text(x: float, y: float, content: str, anchor: str = "start", kind: str = "tick") -> str:
    """Write text at a point."""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(content)}</text>'


def rectangle(
    x: float, y: float, w: float, h: float, fill: str, title: str, opacity: float = 1
) -> str:
    """Draw a box with a tooltip."""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{max(w, 0):.1f}" height="{max(h, 0):.1f}" rx="2"'
    return (
        f'<rect {place} fill="{fill}" fill-opacity="{opacity:.2f}">'
        f"<title>{escape(title)}</title></rect>"
    )


def count(number: float) -> str:
    """Format a number: 1.2k, 3.4M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"


def span(micros: float) -> str:
    """Format a duration: 850 ms, 1.2 s, 3 min."""
    seconds = micros / 1e6
    if seconds < 0.001:
        return f"{micros:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def when(seconds: float, width: float) -> str:
    """Format an instant for an axis that is `width` seconds wide."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%d %b %H:%M}" if width > 86_400 else f"{moment:%H:%M:%S}"


def nice_steps(highest: float, wanted: int = 4) -> list[float]:
    """Choose round numbers from 0 to just above the highest."""
    if highest <= 0:
        return [0.0, 1.0]
    raw = highest / wanted
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(m * size for m in (1, 2, 2.5, 5, 10) if m * size >= raw)
    return [step * n for n in range(math.ceil(highest / step) + 1)]


class Plot:
    """A chart with a time axis."""

    def __init__(self, times: Sequence[float], height: float = 220) -> None:
        self.times = times
        self.height = height
        self.first = times[0] if times else 0.0
        self.width = max((times[-1] - self.first) if times else 0.0, 1.0)
        self.parts: list[str] = []

    def x(self, at: float) -> float:
        """Return the x position of an instant."""
        return _LEFT + (at - self.first) / self.width * (WIDTH - _LEFT - _RIGHT)

    def y(self, share: float) -> float:
        """Return the y position of a share of the height."""
        return self.height - _BOTTOM - share * (self.height - _TOP - _BOTTOM)

    def rule(self, share: float, label: str) -> None:
        """Draw a grid line with its label."""
        y = self.y(share)
        self.parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}"/>')
        self.parts.append(text(_LEFT - 6, y + 4, label, "end"))

    def clock(self) -> None:
        """Write the instants of the time axis."""
        for n in range(6):
            at = self.first + self.width * n / 5
            anchor = ("start", "middle", "middle", "middle", "middle", "end")[n]
            self.parts.append(text(self.x(at), self.height - 6, when(at, self.width), anchor))

    def done(self, title: str) -> str:
        """Return the chart."""
        return svg("".join(self.parts), self.height, title)


def area_chart(times: Sequence[float], series: Mapping[str, Sequence[float]], title: str) -> str:
    """Stack series on each other over time."""
    plot = Plot(times)
    totals = [sum(values) for values in zip(*series.values(), strict=True)]
    steps = nice_steps(max(totals, default=0))
    for step in steps:
        plot.rule(step / steps[-1], count(step))
    below = [0.0] * len(times)
    for (name, values), colour in zip(series.items(), COLOURS * 3, strict=False):
        above = [b + v for b, v in zip(below, values, strict=True)]
        edge = [(plot.x(t), plot.y(a / steps[-1])) for t, a in zip(times, above, strict=True)]
        back = [(plot.x(t), plot.y(b / steps[-1])) for t, b in zip(times, below, strict=True)]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in [*edge, *reversed(back)])
        tip = f"<title>{escape(name)}: {count(sum(values))}</title>"
        plot.parts.append(f'<path d="M{path}Z" fill="{colour}">{tip}</path>')
        below = above
    plot.clock()
    return plot.done(title)


def line_chart(
    times: Sequence[float], series: Mapping[str, Sequence[float | None]], title: str
) -> str:
    """Draw durations over time, on a logarithmic scale."""
    plot = Plot(times)
    known = [v for values in series.values() for v in values if v]
    low = math.floor(math.log10(min(known, default=1)))
    high = max(math.ceil(math.log10(max(known, default=10))), low + 1)
    for power in range(low, high + 1):
        plot.rule((power - low) / (high - low), span(10.0**power))
    for (name, values), colour in zip(series.items(), COLOURS * 3, strict=False):
        points = [
            f"{plot.x(t):.1f} {plot.y((math.log10(v) - low) / (high - low)):.1f}"
            for t, v in zip(times, values, strict=True)
            if v
        ]
        tip = f"<title>{escape(name)}</title>"
        path = "L".join(points)
        if points:
            # A line of no length with a round end is a dot: one point is visible too.
            path = path if len(points) > 1 else f"{path}L{path}"
            place = f'd="M{path}" stroke="{colour}" stroke-linecap="round"'
            plot.parts.append(f'<path class="line" {place}>{tip}</path>')
    plot.clock()
    return plot.done(title)


def heat_map(
    rows: Sequence[str], columns: Sequence[str], values: Mapping[tuple[str, str], float], title: str
) -> str:
    """Colour the cells of a table by their values."""
    left = 16 + 7.2 * max((len(row) for row in rows), default=0)
    w = (WIDTH - left - _RIGHT) / max(len(columns), 1)
    h = 22.0
    highest = max(values.values(), default=0) or 1
    parts = []
    for i, row in enumerate(rows):
        parts.append(text(left - 8, _TOP + i * h + 15, row, "end"))
        for j, column in enumerate(columns):
            value = values.get((row, column), 0)
            shade = 0.06 + (DARKEST - 0.06) * (value / highest) ** 0.6 if value else 0.03
            tip = f"{row}, {column}: {value:,.0f}"
            box = (left + j * w + 1, _TOP + i * h + 1, w - 2, h - 2)
            parts.append(rectangle(*box, "var(--c1)", tip, shade))
            if value and w > _ROOM:
                parts.append(
                    text(left + (j + 0.5) * w, _TOP + i * h + 15, count(value), "middle", "label")
                )
    bottom = _TOP + len(rows) * h
    parts += [text(left + (j + 0.5) * w, bottom + 15, c, "middle") for j, c in enumerate(columns)]
    return svg("".join(parts), bottom + 24, title)


def bar_chart(rows: Sequence[tuple[str, float, str]], title: str, colour: str = COLOURS[0]) -> str:
    """Draw one bar for each (name, value, label)."""
    left = 12 + 7.2 * max((len(name) for name, _, _ in rows), default=0)
    highest = max((value for _, value, _ in rows), default=0) or 1
    h = 24.0
    parts = []
    for i, (name, value, label) in enumerate(rows):
        y = _TOP + i * h
        w = (WIDTH - left - 190) * value / highest
        parts.append(text(left - 8, y + 15, name, "end", "label"))
        parts.append(rectangle(left, y + 3, max(w, 2), h - 8, colour, f"{name}: {label}"))
        parts.append(text(left + max(w, 2) + 8, y + 15, label))
    return svg("".join(parts), _TOP * 2 + len(rows) * h, title)


def timeline(rows: Mapping[str, Sequence[Bar]], title: str) -> str:
    """Draw the intervals of each row on one time axis."""
    bars = [bar for each in rows.values() for bar in each]
    times = [min((b.start for b in bars), default=0), max((b.end for b in bars), default=1)]
    left = 16 + 7.2 * max((len(name) for name in rows), default=0)
    h = 15.0
    height = _TOP + len(rows) * h + _BOTTOM
    width = max(times[1] - times[0], 1.0)
    scale = (WIDTH - left - _RIGHT) / width
    parts = []
    for i, (name, each) in enumerate(rows.items()):
        y = _TOP + i * h
        parts.append(text(left - 8, y + 11, name, "end"))
        for bar in each:
            x = left + (bar.start - times[0]) * scale
            w = max((bar.end - bar.start) * scale - 0.6, 0.8)
            shade = 0.15 + 0.85 * min(bar.shade, 1.0)
            parts.append(rectangle(x, y + 2, w, h - 4, "var(--c2)", bar.title, shade))
    for n in range(5):
        at = times[0] + width * n / 4
        anchor = ("start", "middle", "middle", "middle", "end")[n]
        parts.append(text(left + (at - times[0]) * scale, height - 6, when(at, width), anchor))
    return svg("".join(parts), height, title)


def legend(names: Sequence[str]) -> str:
    """Return the names of the colours."""
    items = (
        f'<span><i style="background:{colour}"></i>{escape(name)}</span>'
        for name, colour in zip(names, COLOURS * 3, strict=False)
    )
    return f'<div class="legend">{"".join(items)}</div>'
