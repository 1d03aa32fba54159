"""Searches: a filter that wants anything, by default."""

from dragoman.model.search import LARGEST_PAGE, HistoryFilter, HistoryPage


def test_an_empty_filter_wants_anything() -> None:
    assert HistoryFilter() == HistoryFilter((), "", "", "", "", "", "", "", "", "", 0.0, 0.0, ())


def test_a_page_says_where_to_continue() -> None:
    assert HistoryPage(({"job": "j"},), 7, 1.0).before == 7
    assert LARGEST_PAGE >= 100
