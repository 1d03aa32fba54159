"""Loggers of tasks: the standard library's."""

import logging


def get_task_logger(name: str) -> logging.Logger:
    """Return a logger for the tasks of a module."""
    return logging.getLogger(f"celery.task.{name}" if name else "celery.task")
