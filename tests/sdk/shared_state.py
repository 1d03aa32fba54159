"""Lifespans and tasks that use them. A child process imports this module."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dragoman import JobContext


@dataclass
class Settings:
    """What the worker provides."""

    folder: str = "."
    factor: int = 1


@dataclass
class Database:
    """What a lifespan opens."""

    pid: int = field(default_factory=os.getpid)
    used: int = 0


@contextmanager
def plain() -> Iterator[Database]:
    yield Database()


@asynccontextmanager
async def asynchronous() -> AsyncIterator[Database]:
    yield Database()


@contextmanager
def logged() -> Iterator[None]:
    """Write a line when a process enters and leaves it."""
    path = Path(os.environ["LIFESPAN_LOG"])
    with path.open("a") as file:
        file.write(f"enter {os.getpid()}\n")
    yield
    with path.open("a") as file:
        file.write(f"leave {os.getpid()}\n")


@contextmanager
def broken() -> Iterator[Database]:
    if Path("/").exists():
        raise ConnectionError("no database")
    yield Database()


def count(n: int, db: Database, settings: Settings, ctx: JobContext) -> list[int]:
    """Use the database."""
    db.used += n * settings.factor
    assert ctx.id
    return [db.used, db.pid, os.getpid()]


async def count_async(n: int, db: Database) -> list[int]:
    db.used += n
    return [db.used, db.pid, os.getpid()]


def with_extras(db: Database, **extras: int) -> dict[str, int]:
    return extras


def pid() -> int:
    return os.getpid()


def hire(job: str) -> str:
    return f"hired as {job}"
