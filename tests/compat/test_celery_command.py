"""Celery's command line. The tutorials' test runs its worker."""

import sys
import types

import pytest

from dragoman.compat.celery import Celery
from dragoman.compat.celery.command import find_app, run_command
from dragoman.compat.hints import NotInCompat


def test_an_app_is_found_in_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("some_proj")
    monkeypatch.setitem(sys.modules, "some_proj", module)
    with pytest.raises(SystemExit, match="has no Celery app"):
        find_app("some_proj")
    module.queue = Celery("q")  # type: ignore[attr-defined]
    assert find_app("some_proj") is find_app("some_proj:queue") is module.queue


def test_commands_that_cannot_be_meant_are_refused() -> None:
    with pytest.raises(SystemExit, match="name the app"):
        run_command(["worker"])
    with pytest.raises(NotInCompat, match=r"pool 'prefork'.*docs/workers.md"):
        run_command(["worker", "-P", "prefork"], Celery("x"))
    with pytest.raises(SystemExit):
        run_command(["inspect", "active"], Celery("x"))
