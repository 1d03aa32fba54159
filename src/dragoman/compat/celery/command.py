"""Celery's command line: `python -m dragoman.compat.celery -A tasks worker`."""

import argparse
import asyncio
import importlib
import importlib.util
import json
import logging
import os
import sys
from collections.abc import Sequence

import structlog

from dragoman.compat.celery.app import Celery
from dragoman.compat.hints import NotInCompat
from dragoman.compat.serving import serve_all

log = structlog.get_logger("dragoman.compat")


def run_command(argv: Sequence[str], app: Celery | None = None) -> None:
    """Run a command of an app; `-A` names it if it is not given."""
    given = _parser().parse_args(list(argv))
    if app is None:
        if not given.app:
            raise SystemExit("name the app: -A MODULE, as in `-A tasks worker`")
        app = find_app(given.app)
    {"worker": _worker, "beat": _beat, "call": _call, "result": _result}[given.command](app, given)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dragoman.compat.celery", add_help=True)
    parser.add_argument("-A", "--app", help="MODULE, or MODULE:APP")
    commands = parser.add_subparsers(dest="command", required=True)
    worker = commands.add_parser("worker", help="run tasks until Ctrl-C")
    worker.add_argument("-Q", "--queues", default="", help="queues, with commas")
    worker.add_argument("-c", "--concurrency", type=int)
    worker.add_argument("-n", "--hostname", help="ignored: workers name themselves")
    worker.add_argument("-B", "--beat", action="store_true", help="declare the periodic tasks, too")
    worker.add_argument("-P", "--pool", default="threads")
    worker.add_argument("-l", "--loglevel", default="INFO")
    worker.add_argument("-E", "--task-events", action="store_true", help="ignored")
    beat = commands.add_parser("beat", help="declare the periodic tasks; the broker submits them")
    beat.add_argument("-l", "--loglevel", default="INFO")
    call = commands.add_parser("call", help="submit a task; print its id")
    call.add_argument("name")
    call.add_argument("-a", "--args", default="[]")
    call.add_argument("-k", "--kwargs", default="{}")
    call.add_argument("-Q", "--queue")
    result = commands.add_parser("result", help="print the result of a task")
    result.add_argument("task_id")
    return parser


def find_app(name: str) -> Celery:
    """Return the app of a module, also from the current folder."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    module_name, _, attribute = name.partition(":")
    module = importlib.import_module(module_name)
    names = [attribute] if attribute else ["app", "celery", *vars(module)]
    for each in names:
        if isinstance(found := getattr(module, each, None), Celery):
            return found
    nested = f"{module_name}.celery"
    if not attribute and hasattr(module, "__path__") and importlib.util.find_spec(nested):
        return find_app(nested)
    raise SystemExit(f"{name} has no Celery app; write `app = Celery(...)` in it")


def _worker(app: Celery, given: argparse.Namespace) -> None:
    if given.pool not in ("threads", "solo"):
        raise NotInCompat(f"the pool {given.pool!r}", "tasks run in threads; see docs/workers.md")
    level = getattr(logging, given.loglevel.upper(), logging.INFO)
    logging.basicConfig(level=level)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(level))
    if given.beat:
        _declare(app)
    queues = [each for each in given.queues.split(",") if each]
    concurrency = 1 if given.pool == "solo" else given.concurrency
    workers = app.make_workers(queues, concurrency)
    log.info("offering", queues=[w.services[0] for w in workers], tasks=sorted(app.tasks))
    asyncio.run(serve_all(workers))


def _declare(app: Celery) -> None:
    log.info("periodic tasks declared; the broker submits them", names=app.declare_schedules())


def _beat(app: Celery, given: argparse.Namespace) -> None:
    app.import_modules()
    _declare(app)


def _call(app: Celery, given: argparse.Namespace) -> None:
    args, kwargs = json.loads(given.args), json.loads(given.kwargs)
    sys.stdout.write(f"{app.send_task(given.name, args, kwargs, queue=given.queue).id}\n")


def _result(app: Celery, given: argparse.Namespace) -> None:
    sys.stdout.write(f"{app.AsyncResult(given.task_id).get()}\n")
