import re
from html.parser import HTMLParser

import pytest

from dragoman.pipeline.embedded.queries import DuckQueries
from dragoman.pipeline.queries import SparkQueries
from dragoman.pipeline.report import build_report
from dragoman.pipeline.store import TableStore

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


class Page(HTMLParser):
    """Collects titles, and everything that would be loaded from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.titles: list[str] = []
        self.loaded: list[str] = []
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_title = tag == "h2"
        named = dict(attrs)
        links = [named[n] for n in ("src", "href", "xlink:href") if named.get(n)]
        self.loaded += [str(link) for link in links] + [tag] * (tag in ("script", "link", "img"))

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.titles.append(data.strip())
            self._in_title = False


def test_the_report_shows_everything_and_loads_nothing(tables: TableStore) -> None:
    text = build_report(SparkQueries(tables))
    page = Page()
    page.feed(text)
    assert page.loaded == []
    assert "@import" not in text
    assert not re.search(r"url\(|https?://", text)
    wanted = ["Traffic", "Job duration", "Hour by hour", "Slowest services", "Who calls whom"]
    wanted += ["Bridges", "Workers", "Workers at work", "Forecast", "Capacity", "Then and now"]
    wanted += ["Bill", "Objectives", "Anomalies"]
    assert page.titles[1:] == wanted
    assert page.titles[0].startswith("Audit")
    assert text.count("<svg") == 9
    assert "lease broken" in text
    assert "10 breaches" in text
    assert len(text) < 500_000


def test_both_engines_give_the_same_page(tables: TableStore) -> None:
    with DuckQueries(tables.root) as found:
        assert build_report(found) == build_report(SparkQueries(tables))
