"""The last log records, for the task `get_logs`."""

from collections.abc import Iterator

import pytest
import structlog

from dragoman.services.logs import LogBuffer


@pytest.fixture
def book() -> Iterator[LogBuffer]:
    before = structlog.get_config()["processors"]
    book = LogBuffer(kept=5)
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.processors.KeyValueRenderer()]
    )
    book.attach()
    yield book
    book.detach()
    structlog.configure(processors=before)


def messages(book: LogBuffer, **wanted: str) -> list[str]:
    return [record["message"] for record in book.read(**wanted)]  # type: ignore[arg-type]


def test_the_last_log_records_are_kept(book: LogBuffer) -> None:
    log = structlog.get_logger("test")
    for number in range(8):
        log.info(f"line {number}", link="nfp", error=ValueError("odd"))
    assert messages(book) == [f"line {n}" for n in range(3, 8)]
    assert messages(book, last=2) == ["line 6", "line 7"]  # type: ignore[arg-type]
    assert book.read()[0]["link"] == "nfp"
    assert book.read()[0]["error"] == "odd"
    assert book.read(last=0) == []


def test_records_are_chosen_by_level_and_time(book: LogBuffer) -> None:
    log = structlog.get_logger("test")
    log.info("low", timestamp="2026-01-01T00:00:00")
    log.error("high", timestamp="2026-01-02T00:00:00")
    assert messages(book, level="warning") == ["high"]
    assert messages(book, since="2026-01-01T12:00:00") == ["high"]
    assert messages(book, until="2026-01-01T12:00:00") == ["low"]
    assert messages(book, logger="another") == []


def test_a_buffer_is_attached_once_until_it_is_detached(book: LogBuffer) -> None:
    book.attach()
    structlog.get_logger().info("once")
    assert messages(book) == ["once"]
    book.detach()
    structlog.get_logger().info("unheard")
    assert messages(book) == ["once"]


def test_a_namespace_keeps_only_its_own_records(book: LogBuffer) -> None:
    acme = LogBuffer(namespace="acme")
    acme.attach()
    log = structlog.get_logger("test")
    try:
        log.info("of the process")
        with structlog.contextvars.bound_contextvars(namespace="acme"):
            log.info("of acme")
        with structlog.contextvars.bound_contextvars(namespace="globex"):
            log.info("of globex")
    finally:
        acme.detach()
    assert messages(acme) == ["of acme"]
    assert messages(book) == ["of the process"]
