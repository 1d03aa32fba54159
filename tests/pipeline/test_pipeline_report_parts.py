import re
from importlib.resources import files

import pytest

from dragoman.pipeline.charts import DARKEST
from dragoman.pipeline.report_parts import coloured, table


def test_cells_of_a_table_are_escaped() -> None:
    assert "&lt;b&gt;" in table(["x"], [["<b>"]])
    assert coloured("<b>", True) == '<span class="good">&lt;b&gt;</span>'


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_numbers_in_the_darkest_cell_of_a_heat_map_are_readable(theme: int) -> None:
    page = files("dragoman.pipeline").joinpath("report.html").read_text(encoding="utf-8")
    card, ink, blue = (re.findall(rf"--{name}:(#\w+)", page)[theme] for name in _NAMES)
    under = [(1 - DARKEST) * a + DARKEST * b for a, b in zip(_rgb(card), _rgb(blue), strict=True)]
    bright, dim = sorted((_luminance(under), _luminance(_rgb(ink))), reverse=True)
    # WCAG 2, level AA.
    assert (bright + 0.05) / (dim + 0.05) >= 4.5


_NAMES = ("card", "ink", "c1")


def _rgb(colour: str) -> list[float]:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    return [int(digits[n : n + 2], 16) / 255 for n in (0, 2, 4)]


def _luminance(rgb: list[float]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
