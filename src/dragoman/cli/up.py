"""`dragoman up`: run the broker."""

import asyncio
import gc
import inspect
import logging
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import structlog
import typer

from dragoman.cli.broker_files import CONFIG, make_data_folder
from dragoman.cli.standard_logs import OURS, attach_standard_logs
from dragoman.cli.systemd import SystemdNotifier
from dragoman.dialects.listeners import LISTENERS, ListenerSpec

if TYPE_CHECKING:
    from dragoman.server.serving import OnReady
    from dragoman.server.settings import BrokerSettings


F = TypeVar("F", bound=Callable[..., object])


def _help(listener: ListenerSpec) -> str:
    default = listener.note or f" Default: {listener.default}."
    return f"Endpoint for {listener.peers}, or off.{default}"


def _with_listeners(command: F) -> F:
    """Replace `**listen` in a command's signature by one option for each listener."""
    options = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=typer.Option(None, help=_help(each)),
            annotation=str | None,
        )
        for each in LISTENERS
    ]
    own = inspect.signature(command)
    kept = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in kept]
    vars(command)["__signature__"] = own.replace(parameters=[*keyword, *options])
    return command


@_with_listeners
def up(
    config: Path | None = CONFIG,
    data: Path | None = typer.Option(None, help="Folder of the ledger (dragoman-data)."),
    inventory: Path | None = typer.Option(
        None, help="Inventory: a folder of YAML or TOML files, or the index file in it."
    ),
    ready_file: Path | None = typer.Option(
        None, help="Write the bound endpoints here as JSON once all are open."
    ),
    accept_clock: bool = typer.Option(
        False,
        "--accept-clock",
        help="Start although the clock is far ahead of the last record; open jobs may expire.",
    ),
    insecure: bool = typer.Option(
        False, "--insecure", help="Let listeners without security accept other machines."
    ),
    cluster: str | None = typer.Option(
        None, help="The name of the cluster that this broker is a node of."
    ),
    node: str | None = typer.Option(None, help="The name of this node in its cluster."),
    join: str | None = typer.Option(
        None, help="The other nodes of the cluster: HOST:PORT,HOST:PORT."
    ),
    cluster_listen: str | None = typer.Option(
        None, help="Where the other nodes connect, as HOST:PORT (127.0.0.1:6222)."
    ),
    cluster_token: Path | None = typer.Option(
        None, help="File with the secret of the cluster (cluster.token in the data folder)."
    ),
    cluster_nats: str | None = typer.Option(
        None, help="URL of NATS servers for the cluster, if the node shall start none."
    ),
    log_level: str = typer.Option("info", help="debug, info, warning or error."),
    mesh: list[str] = typer.Option(
        [], help="Work with the broker at this URL: mesh://HOST:PORT. May be given several times."
    ),
    mesh_listen: str | None = typer.Option(
        None, help="Endpoint for other brokers, e.g. 127.0.0.1:5570, or off (the default)."
    ),
    name: str | None = typer.Option(None, help="The name of this broker among others."),
    **listen: str | None,
) -> None:
    """Run the broker until Ctrl-C or SIGTERM.

    Listeners without credentials accept only this machine, unless --insecure is given.
    An endpoint is `tcp://HOST:PORT`, `HOST:PORT` or `off`; port 0 picks a free one. Settings come
    from the file, then DRAGOMAN_... environment variables, then these flags; later ones win. The
    first signal drains (running jobs get some time), the second stops at once. Open jobs are in
    the ledger either way.

    `dragoman up --cluster main --node a --cluster-listen a:6222 --join b:6222,c:6222` runs a node
    of a cluster. Every node needs the same secret (`dragoman cluster token`). One node leads; the
    others pass connections through to it, and take over if it fails.

    `dragoman up --data try --nfp 127.0.0.1:0 --ready-file ready.json` picks a free port for NFP
    and writes it to the file.
    """
    # Imported here: the other commands start in a third of the time without the server.
    from dragoman.security.files import only_owner
    from dragoman.server.ready_file import write_ready_file
    from dragoman.server.settings_sources import load

    only_owner()
    start_logging(log_level, of_logger="")
    flags: dict[str, object] = {}
    endpoints = {**listen, "mesh": mesh_listen}
    if wanted := {each: text for each, text in endpoints.items() if text is not None}:
        flags["listen"] = wanted
    if mesh:
        flags["mesh"] = {f"flag-{n}": {"url": url} for n, url in enumerate(mesh, 1)}
    if name is not None:
        flags["name"] = name
    if accept_clock:
        flags["accept_clock"] = True
    if insecure:
        flags["credentials"] = {"insecure": True}
    if data is not None:
        flags["data"] = data
    if inventory is not None:
        flags["inventory_path"] = inventory
    place = {
        "name": cluster,
        "node": node,
        "join": join,
        "listen": cluster_listen,
        "token": cluster_token,
        "nats": cluster_nats,
    }
    if given := {name: text for name, text in place.items() if text is not None}:
        flags["cluster"] = given
    settings = load(config, **flags)
    make_data_folder(settings.data)

    opened = threading.Event()

    def ready(endpoints: dict[str, str]) -> None:
        opened.set()
        if ready_file is not None:
            write_ready_file(ready_file, endpoints)

    tune_garbage_collector()
    asyncio.run(serve(settings, ready, opened))


async def serve(settings: "BrokerSettings", ready: "OnReady", opened: threading.Event) -> None:
    """Run a broker: alone, with several namespaces, or as a node of a cluster."""
    from dragoman.server.server import Server

    notifier = SystemdNotifier()
    if settings.namespaces:
        from dragoman.server.namespaces import Namespaces

        all_ = Namespaces(settings)
        await notifier.accompany(all_.run(ready), opened.is_set, lambda: all_.is_going_down)
        return
    if not settings.cluster.name:
        server = Server(settings)
        await notifier.accompany(server.run(ready), opened.is_set, lambda: server.is_going_down)
        return
    from dragoman.server.cluster_member import ClusterMember

    member = ClusterMember(settings)
    try:
        server = Server(settings, await member.open())
        member.attach(server)
        # A standby is in service, too: systemd must not wait until it leads.
        opened.set()
        await notifier.accompany(server.run(ready), opened.is_set, lambda: server.is_going_down)
    finally:
        await member.close()


def tune_garbage_collector() -> None:
    """Collect garbage less often, and never scan the objects loaded at the start.

    A broker makes many small objects that live as long as their job. With the defaults it spends a
    fifth of its time on scanning them repeatedly.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def start_logging(level: str, of_logger: str = OURS) -> None:
    """Log to standard error: in colour on a terminal, else as JSON.

    `of_logger` of Python's own logging goes there, too; empty: all of it.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"unknown log level {level!r}; use debug, info, warning or error")
    is_terminal = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            structlog.dev.ConsoleRenderer() if is_terminal else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    attach_standard_logs(number, of_logger)
