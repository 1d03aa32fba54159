"""The built-in services of one broker, its view and its overview: made and connected here."""

from collections.abc import Callable

from dragoman.core.view import ClusterRow
from dragoman.model.names import name_of
from dragoman.server.broker_view import BrokerView
from dragoman.server.builtin_services import BuiltinServices
from dragoman.server.control import BrokerControl
from dragoman.server.guard import Guard
from dragoman.server.internal_client import InternalClient
from dragoman.server.job_history import JobHistory
from dragoman.server.key_tasks import KeyTasks
from dragoman.server.ledger_queries import LedgerQueries
from dragoman.server.limit_rules import declare_limits
from dragoman.server.loop import Loop
from dragoman.server.overview import Overview
from dragoman.server.queue_tasks import QueueTasks, declare_schedules
from dragoman.server.schedule_runner import QUEUE_CLIENT, ScheduleRunner
from dragoman.server.settings import BrokerSettings
from dragoman.server.wiring import management_tasks, new_id
from dragoman.services.inventory import Inventory
from dragoman.services.logs import LogBuffer
from dragoman.transports.memory import MemoryHub


def make_builtin(
    settings: BrokerSettings,
    hub: MemoryHub,
    inventory: Inventory,
    loop: Loop,
    guard: Guard | None,
    control: BrokerControl,
    queries: LedgerQueries,
    logs: LogBuffer,
    show_node: Callable[[], ClusterRow] | None,
) -> tuple[BuiltinServices, Overview]:
    """Make the built-in services and their views of the broker."""
    links, state = loop.links, loop.broker.state
    directories = {"data": str(settings.data)}
    view = BrokerView(
        state, loop.archive, links, loop.clock.now, management_tasks(settings), directories
    )
    view.health = loop.health
    if show_node is not None:
        view.show_node = show_node
    schedules = ScheduleRunner(state.store.queue, loop.engine.terms.apply)
    loop.engine.ticks = schedules
    view.queue = queue = QueueTasks(loop, schedules, new_id)
    # Nobody waits for the replies to scheduled and retried jobs.
    nobody = hub.connect(name_of(QUEUE_CLIENT).encode())
    nobody.wake = nobody.inbox.clear
    declare_schedules(loop, [each.schedule(name) for name, each in settings.schedules.items()])
    declare_limits(loop, settings.services)
    view.has_curve = bool(settings.credentials.curve)
    overview = Overview(
        view,
        loop,
        queries,
        settings.data,
        tables=settings.ledger.tables,
        is_secured=guard is not None,
    )
    _attach(loop, view, overview)
    internal_client = InternalClient(hub, loop.submit, new_id)
    builtin = BuiltinServices(
        settings, inventory, loop, view, control, logs, internal_client, queue.tasks
    )
    builtin.mmi.tasks.add({"why": JobHistory(view.why, queries).why})
    if guard is not None:
        builtin.sid.is_worker = guard.is_worker
        schedules.fault_of, queue.fault_of_others = guard.scheduled_fault, guard.others_fault
        keys = KeyTasks(guard.registry, lambda: guard.gate, loop.clock.now, guard.refresh)
        builtin.mmi.tasks.add(keys.tasks)
    return builtin, overview


def _attach(loop: Loop, view: BrokerView, overview: Overview) -> None:
    """Connect the web application to the broker: it serves the view and listens to records."""
    for link in loop.links.by_name.values():
        attach = getattr(link.transport, "attach", None)
        if attach is not None:
            loop.listeners.append(attach(view))
            link.transport.attach_overview(overview)  # type: ignore[attr-defined]
