"""Records of Python's own logging are lines of our log."""

import logging
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from dragoman.cli.standard_logs import StandardLogs, attach_standard_logs

NAME = "standard-logs-test"


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """A logger whose records are passed on."""
    found = logging.getLogger(NAME)
    attach_standard_logs(logging.INFO, NAME)
    yield found
    found.handlers.clear()


def test_a_record_is_passed_on_once_with_its_level_and_arguments(logger: logging.Logger) -> None:
    attach_standard_logs(logging.INFO, NAME)
    with capture_logs() as lines:
        logger.warning("port %d is taken", 4222)
        logger.info("too much")
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("port 4222 is taken", "warning")
    ]


def test_an_exception_comes_with_its_record(logger: logging.Logger) -> None:
    with capture_logs() as lines:
        try:
            raise ValueError("no")
        except ValueError:
            logger.exception("it failed")
    assert lines[0]["exc_info"][0] is ValueError


def test_a_message_whose_arguments_do_not_fit_is_shown_as_it_is() -> None:
    record = logging.LogRecord(NAME, logging.ERROR, __file__, 1, "%d and %d", ("one",), None)
    with capture_logs() as lines:
        StandardLogs().emit(record)
    assert lines[0]["event"] == "%d and %d ('one',)"
