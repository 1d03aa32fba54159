"""What is old goes, then the oldest of what is too much; what is nobody's business stays."""

from dragoman.spark.retention import ResultFile, Retention, is_result

FILES = [ResultFile("c", 30, 3.0), ResultFile("a", 10, 1.0), ResultFile("b", 20, 2.0)]


def test_everything_stays_without_bounds() -> None:
    assert Retention().excess(FILES, 1e9) == []
    assert Retention().announcement(0.0) == {}


def test_what_is_older_than_allowed_goes() -> None:
    assert Retention(seconds=10).excess(FILES, 12.5) == ["a", "b"]
    assert Retention(seconds=10).excess(FILES, 100.0) == ["a", "b", "c"]
    assert Retention(seconds=10).announcement(50.0) == {"until": "1970-01-01T00:01:00+00:00"}


def test_the_oldest_go_until_the_rest_is_small_enough() -> None:
    assert Retention(bytes=60).excess(FILES, 0.0) == []
    assert Retention(bytes=50).excess(FILES, 0.0) == ["a"]
    assert Retention(bytes=49).excess(FILES, 0.0) == ["a", "b"]


def test_the_newest_stays_however_large_it_is() -> None:
    assert Retention(bytes=1).excess(FILES, 0.0) == ["a", "b"]


def test_only_results_are_in_question() -> None:
    assert is_result("job-1.result.parquet")
    assert not is_result("orders.parquet")
    assert not is_result(".job-1.result.parquet.part")
    assert not is_result(".job.result.parquet")
