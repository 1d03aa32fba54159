"""Dramatiq's command line: `python -m dragoman.compat.dramatiq module`."""

import argparse
import asyncio
import importlib
import os
import sys
from collections.abc import Sequence

import structlog

from dragoman.compat.dramatiq.broker import get_broker
from dragoman.compat.serving import serve_all

log = structlog.get_logger("dragoman.compat")


def run_command(argv: Sequence[str]) -> None:
    """Import modules and process the messages of their actors until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m dragoman.compat.dramatiq")
    parser.add_argument("modules", nargs="+")
    parser.add_argument("-Q", "--queues", nargs="*", default=[])
    parser.add_argument("-t", "--threads", type=int, default=8)
    parser.add_argument("-p", "--processes", type=int, default=1, help="only 1: start several")
    given = parser.parse_args(list(argv))
    if given.processes != 1:
        raise SystemExit(
            "one process here: start the command several times, or see docs/workers.md"
        )
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    for module in given.modules:
        importlib.import_module(module)
    workers = get_broker().make_workers(given.queues, given.threads)
    log.info("processing", queues=[worker.services[0] for worker in workers])
    asyncio.run(serve_all(workers))
