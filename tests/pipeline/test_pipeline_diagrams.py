import re
from xml.etree import ElementTree

from dragoman.pipeline.diagrams import Lane, assign_lanes, flow_chart, lane_chart


def test_intervals_of_one_time_get_lanes_of_their_own_and_free_lanes_are_used_again() -> None:
    spans = [(0, 10), (1, 3), (2, 4), (3, 5), (10, 11)]
    assert assign_lanes([Lane(a, b, "red", "") for a, b in spans]) == [0, 1, 2, 1, 0]


def test_more_than_eight_at_one_time_share_the_last_lane() -> None:
    assert assign_lanes([Lane(0, 5, "red", "")] * 10) == [0, 1, 2, 3, 4, 5, 6, 7, 7, 7]


def test_lanes_are_drawn_with_their_tips_also_for_an_instant() -> None:
    chart = lane_chart({"w<1": [Lane(5, 5, "red", "j1: a & b")]}, "lanes")
    ElementTree.fromstring(chart)
    assert "w&lt;1" in chart
    assert "j1: a &amp; b" in chart
    assert float(re.findall(r'width="([\d.]+)"', chart)[0]) > 0


def test_every_flow_is_drawn_twice_and_every_node_is_named_with_its_sum() -> None:
    flows = {("nfp", "math", "zss"): 30.0, ("dcp", "math", "zss"): 10.0, ("dcp", "x", "?"): 1.0}
    chart = flow_chart(flows, "flows")
    ElementTree.fromstring(chart)
    assert chart.count("<path") == 6
    for words in ("nfp · 30", "dcp · 11", "math · 40", "zss · 40"):
        assert words in chart
    assert "dcp to x to ?: 1" in chart


def test_a_flow_is_as_wide_as_its_share() -> None:
    chart = flow_chart({("a", "s", "b"): 75.0, ("c", "s", "b"): 25.0}, "flows")
    widths = sorted({float(w) for w in re.findall(r'stroke-width="([\d.]+)"', chart)})
    assert widths == [65.0, 195.0]


def test_no_flow_is_an_empty_chart() -> None:
    ElementTree.fromstring(flow_chart({}, "flows"))
