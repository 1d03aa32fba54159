import re
import xml.etree.ElementTree as ET

import pytest

from dragoman.pipeline import charts
from dragoman.pipeline.charts import Bar

TIMES = [0.0, 60.0, 120.0]


@pytest.mark.parametrize(
    "picture",
    [
        charts.area_chart(TIMES, {"<nfp>": [1, 2, 3], "zss": [0, 0, 1]}, "traffic & more"),
        charts.area_chart([], {}, "nothing"),
        charts.line_chart(TIMES, {"p50": [1e3, None, 2e6]}, "latency"),
        charts.line_chart(TIMES, {"p50": [None, None, None]}, "nothing yet"),
        charts.heat_map(["mon"], ["00", "01"], {("mon", "00"): 3.0}, "hours"),
        charts.heat_map([], [], {}, "nothing"),
        charts.bar_chart([("math", 3.0, "3 s"), ("art", 0.0, "none")], "slowest"),
        charts.timeline({"w1": [Bar(0, 10, 0.5, "busy <50%>")]}, "workers"),
        charts.timeline({}, "nobody"),
    ],
)
def test_every_picture_is_well_formed_and_loads_nothing(picture: str) -> None:
    root = ET.fromstring(picture)
    assert root.tag == "svg"
    assert root.attrib["aria-label"]
    assert not {e.tag for e in root.iter()} & {"script", "image", "use", "foreignObject"}
    assert "http" not in picture


def test_stacked_areas_reach_the_sum_of_their_series() -> None:
    picture = charts.area_chart(TIMES, {"a": [5, 5, 5], "b": [5, 5, 5]}, "x")
    areas = [e for e in ET.fromstring(picture).iter("path") if "fill" in e.attrib]
    tops = [min(float(p.split()[1]) for p in a.attrib["d"][1:-1].split("L")) for a in areas]
    assert tops[1] == pytest.approx(10.0)
    assert tops[0] > tops[1]


@pytest.mark.parametrize(
    ("micros", "words"),
    [(5, "5 µs"), (2_500, "2.5 ms"), (1_500_000, "1.5 s"), (3e8, "5 min"), (36e9, "10 h")],
)
def test_spans_are_written_as_people_read_them(micros: float, words: str) -> None:
    assert charts.span(micros) == words


def test_numbers_and_steps_are_round() -> None:
    assert [charts.count(n) for n in (12, 1_200, 3_400_000)] == ["12", "1.2k", "3.4M"]
    assert charts.nice_steps(70) == [0, 20, 40, 60, 80]
    assert charts.nice_steps(0) == [0.0, 1.0]


def test_a_line_with_one_point_is_a_dot() -> None:
    drawn = charts.line_chart(TIMES, {"p50": [None, 1e3, None]}, "latency")
    start, _, end = re.findall(r'class="line" d="M([^"]+)"', drawn)[0].partition("L")
    assert start == end
