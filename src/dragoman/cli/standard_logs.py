"""Brings the records of Python's own `logging` into the log of the broker, in its form.

Transports, uvicorn, asyncio and other libraries log there. Without this their lines would be plain
text between lines of JSON, those below a warning would be lost, and `get_logs` would not have them.
"""

import logging
from typing import Final

import structlog

#: The logger of all loggers of this package.
OURS: Final = "dragoman"


class StandardLogs(logging.Handler):
    """Passes records on to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        """Pass one record on."""
        log = structlog.get_logger(record.name)
        log.log(record.levelno, self.format_message(record), exc_info=record.exc_info)

    def format_message(self, record: logging.LogRecord) -> str:
        """Return the message with its arguments; a wrong number of them must not end the broker."""
        try:
            return record.getMessage()
        except (TypeError, ValueError):
            return f"{record.msg} {record.args}"


def attach_standard_logs(level: int, name: str = OURS) -> None:
    """Begin to pass the records of a logger on; a second call only changes the level.

    What they say below a warning is for debugging: a line for each connection, for one.
    That of a worker leaves all others alone: its tasks may have a log of their own.
    """
    logger = logging.getLogger(name)
    if not any(isinstance(each, StandardLogs) for each in logger.handlers):
        logger.addHandler(StandardLogs())
    logger.setLevel(level if level <= logging.DEBUG else max(level, logging.WARNING))
