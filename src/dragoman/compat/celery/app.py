"""The Celery app: its configuration, its tasks, its connection, its worker."""

import atexit
import importlib
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final, NoReturn, TypedDict, TypeVar, overload

from dragoman.compat.celery.canvas import Signature
from dragoman.compat.celery.config import Config
from dragoman.compat.celery.results import AsyncResult, app_clients
from dragoman.compat.celery.schedules import timing
from dragoman.compat.celery.tasks import CeleryTask
from dragoman.compat.hints import PATIENT, NotInCompat, broker_url
from dragoman.model.content import Call
from dragoman.sdk.blocking import Client, Job
from dragoman.sdk.compositions import WORKFLOW_TASK, Plan
from dragoman.sdk.queue_admin import Schedules
from dragoman.sdk.task_results import TryAgain
from dragoman.sdk.worker import Worker

#: Schedules of periodic tasks have this prefix in the broker.
_BEAT: Final = "celery."
F = TypeVar("F", bound=Callable[..., object])
#: Tasks of `shared_task`, for every app of the program: function and options.
_shared: list[tuple[Callable[..., object], dict[str, Any]]] = []
_apps: "list[Celery]" = []


class PeriodicTask(TypedDict, total=False):
    """An entry of `beat_schedule`."""

    task: str
    schedule: object
    args: Iterable[object]
    kwargs: Mapping[str, object]
    options: Mapping[str, object]


class AppSignal:
    """Functions that are called with the app when it is complete."""

    def __init__(self) -> None:
        self._functions: list[Callable[..., object]] = []

    def connect(self, function: F, **_: object) -> F:
        """Call a function with `sender=app`."""
        self._functions.append(function)
        return function

    def send(self, app: "Celery") -> None:
        """Call each function once."""
        functions, self._functions = self._functions, []
        for function in functions:
            function(sender=app)


class Control:
    """Remote control: only `revoke` is there."""

    def __init__(self, app: "Celery") -> None:
        self._app = app

    def revoke(self, task_id: str | Iterable[str], terminate: bool = False, **_: object) -> None:
        """Cancel tasks by their ids."""
        for each in [task_id] if isinstance(task_id, str) else task_id:
            self._app.AsyncResult(each).revoke(terminate)

    def __getattr__(self, name: str) -> NoReturn:
        raise NotInCompat(f"app.control.{name}", "use `dragoman workers`, `jobs`, `pause`, `why`")


class Celery:
    """An app: `app = Celery("tasks", broker="nfp://127.0.0.1:5555")`."""

    def __init__(
        self,
        main: str | None = None,
        *,
        broker: str | None = None,
        backend: object = None,
        include: Iterable[str] = (),
        **options: object,
    ) -> None:
        """Prepare. `backend` means nothing here: the broker keeps results."""
        self.main = main
        self.conf = Config()
        self.conf.broker_url = broker
        self.conf.include = tuple(include)
        self.tasks: dict[str, CeleryTask] = {}
        self.control = Control(self)
        self.on_after_configure = AppSignal()
        self.on_after_finalize = AppSignal()
        self._periodic: dict[str, PeriodicTask] = {}
        self._lock = threading.Lock()
        self._client: Client | None = None
        _apps.append(self)
        app_clients.append(self.connected)
        for name, found in options.items():
            if name not in ("set_as_current", "autofinalize", "fixups", "namespace"):
                self.conf[name] = found
        for function, more in _shared:
            self.task(function, **more)

    # --- tasks --------------------------------------------------------------------------------

    @overload
    def task(self, function: Callable[..., object], **options: Any) -> CeleryTask: ...

    @overload
    def task(self, **options: Any) -> Callable[[Callable[..., object]], CeleryTask]: ...

    def task(
        self, function: Callable[..., object] | None = None, **options: Any
    ) -> CeleryTask | Callable[[Callable[..., object]], CeleryTask]:
        """Make a function a task: `@app.task` or `@app.task(bind=True, ...)`."""
        if function is None:
            return partial(self._add, options=options)
        return self._add(function, options)

    def _add(self, function: Callable[..., object], options: Mapping[str, object]) -> CeleryTask:
        made = CeleryTask(self, function, **{"name": self._name_of(function), **options})
        return self.tasks.setdefault(made.name, made)

    def _name_of(self, function: Callable[..., object]) -> str:
        module = function.__module__
        return f"{self.main if module == '__main__' and self.main else module}.{function.__name__}"

    def config_from_object(self, source: object, namespace: str = "", **_: object) -> None:
        """Read the configuration from a module's name, a module, a class or a mapping."""
        self.conf.read(source, namespace)

    def autodiscover_tasks(self, packages: Iterable[str] = (), **_: object) -> None:
        """Import the module `tasks` of each package when the worker starts."""
        self.conf.include = (*self.conf.include, *(f"{each}.tasks" for each in packages))

    def route(self, task: str) -> str:
        """Return the queue of a task, by `task_routes`."""
        routes = self.conf.task_routes or {}
        found = routes.items() if isinstance(routes, Mapping) else routes
        for pattern, route in found:
            if fnmatchcase(task, pattern):
                return str(route["queue"] if isinstance(route, Mapping) else route)
        return str(self.conf.task_default_queue)

    # --- submitting ---------------------------------------------------------------------------

    def connected(self) -> Client:
        """Return the client; it connects on first use."""
        with self._lock:
            if self._client is None:
                self._client = Client(broker_url(self.conf.broker_url))
                atexit.register(self.close)
            return self._client

    def close(self) -> None:
        """Disconnect. Submitted tasks continue."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def __enter__(self) -> "Celery":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def submit(
        self,
        service: str,
        task: str,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        *,
        timeout: float,
        job: str | None = None,
        priority: int = 0,
        options: Mapping[str, object] | None = None,
    ) -> Job:
        """Submit a job; return when the broker has it."""
        client = self.connected()
        call = Call(task, args, kwargs, timeout=timeout)
        submitted = client.order(service, call, priority=priority, job=job, options=options)
        if client.is_acknowledged and not submitted.wait_until_acknowledged(30.0):
            raise ConnectionError(f"the broker {client.asynchronous.endpoint} does not answer")
        return submitted

    def start_workflow(
        self, first: Signature, plan: Plan, options: Mapping[str, Any]
    ) -> AsyncResult:
        """Submit a chain or chord to the queue of its first task."""
        service = first.type.queue_for({**first.options, **options})
        delay = float(options.get("countdown") or 0.0)
        job = self.submit(
            service,
            WORKFLOW_TASK,
            (plan.members(),),
            {},
            timeout=PATIENT + delay,
            job=options.get("task_id"),
            options={"delay": delay} if delay else {},
        )
        return AsyncResult(job.id, self.connected, job, service)

    def send_task(
        self,
        name: str,
        args: Iterable[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        **options: Any,
    ) -> AsyncResult:
        """Submit a task by its name; its code may be elsewhere."""
        known = self.tasks.get(name) or CeleryTask(self, _elsewhere, name=name)
        return known.apply_async(args, kwargs, **options)

    def AsyncResult(self, id: str) -> AsyncResult:  # noqa: N802 (Celery's name)
        """Return the result of a task by its id."""
        return AsyncResult(id, self.connected)

    def signature(
        self,
        name: str,
        args: Iterable[object] | None = (),
        kwargs: Mapping[str, object] | None = None,
        **options: Any,
    ) -> Signature:
        """Return the signature of a task by its name."""
        known = self.tasks.get(name) or CeleryTask(self, _elsewhere, name=name)
        return known.signature(args, kwargs, **options)

    # --- periodic tasks -----------------------------------------------------------------------

    def add_periodic_task(
        self,
        schedule: object,
        sig: Signature,
        args: Iterable[object] = (),
        kwargs: Mapping[str, object] | None = None,
        name: str | None = None,
        **_: object,
    ) -> str:
        """Submit a task again and again; `beat`, or a worker with -B, tells the broker."""
        full = sig.with_args(tuple(args), kwargs or {})
        wanted = name or f"{full.task} {full.args!r}"
        self._periodic[wanted] = {
            "task": full.task,
            "schedule": schedule,
            "args": full.args,
            "kwargs": full.kwargs,
            "options": full.options,
        }
        return wanted

    def declare_schedules(self) -> list[str]:
        """Give the broker the periodic tasks; remove those that are gone. Return their names."""
        self.on_after_configure.send(self)
        self.on_after_finalize.send(self)
        schedules = Schedules(self.connected())
        wanted = {_BEAT + _schedule_name(name): found for name, found in self._beats().items()}
        for known in schedules.list():
            if str(known["name"]).startswith(_BEAT) and known["name"] not in wanted:
                schedules.remove(known["name"])
        for name, entry in wanted.items():
            self._declare(schedules, name, entry)
        return sorted(wanted)

    def _beats(self) -> dict[str, PeriodicTask]:
        return {**self.conf.beat_schedule, **self._periodic}

    def _declare(self, schedules: Schedules, name: str, entry: PeriodicTask) -> None:
        task = str(entry["task"])
        known = self.tasks.get(task) or CeleryTask(self, _elsewhere, name=task)
        schedules.add(
            name,
            known.queue_for(entry.get("options") or {}),
            task,
            args=list(entry.get("args") or ()),
            kwargs=dict(entry.get("kwargs") or {}),
            **timing(entry["schedule"], str(self.conf.timezone or "UTC")),
        )

    # --- the worker ---------------------------------------------------------------------------

    def import_modules(self) -> None:
        """Import the modules that have its tasks."""
        for module in (*self.conf.include, *self.conf.imports):
            importlib.import_module(module)

    def make_workers(
        self, queues: Iterable[str] = (), concurrency: int | None = None, **options: Any
    ) -> list[Worker]:
        """Return a Dragoman worker for each queue: most dialects know one service a worker."""
        self.import_modules()
        names = tuple(queues) or (str(self.conf.task_default_queue),)
        most = concurrency or int(self.conf.worker_concurrency)
        return [self._worker(each, names, concurrency=most, **options) for each in names]

    def _worker(self, queue: str, queues: tuple[str, ...], **options: Any) -> Worker:
        worker = Worker(broker_url(self.conf.broker_url), queue, **options)
        for task in self.tasks.values():
            again = (TryAgain, *task.autoretry_for)
            retries = task.retries()
            retry_on = again if retries.times else ()
            worker.task(name=task.name, retries=retries, retry_on=retry_on)(task.function())
        worker.offer_workflows(*queues, *self._queues())
        return worker

    def _queues(self) -> set[str]:
        """Return every queue that this app knows of: steps of its chains may use them."""
        own = {task.queue_for({}) for task in self.tasks.values()}
        return own | {str(self.conf.task_default_queue)}

    def worker_main(self, argv: list[str] | None = None) -> None:
        """Run a worker until Ctrl-C."""
        from dragoman.compat.celery.command import run_command

        run_command(["worker", *[each for each in argv or sys.argv[1:] if each != "worker"]], self)

    def start(self, argv: list[str] | None = None) -> None:
        """Run the command line of Celery: worker, beat, call, result."""
        from dragoman.compat.celery.command import run_command

        run_command(argv or sys.argv[1:], self)


@overload
def shared_task(function: Callable[..., object], **options: Any) -> "SharedTask": ...


@overload
def shared_task(**options: Any) -> "Callable[[Callable[..., object]], SharedTask]": ...


def shared_task(
    function: Callable[..., object] | None = None, **options: Any
) -> "SharedTask | Callable[[Callable[..., object]], SharedTask]":
    """Make a function a task of every app; until there is one, of an app for the local broker."""
    if function is None:
        return partial(_share, options=options)
    return _share(function, options)


def _share(function: Callable[..., object], options: dict[str, Any]) -> "SharedTask":
    _shared.append((function, options))
    for app in _apps:
        app.task(function, **options)
    return SharedTask(function, options)


class SharedTask:
    """A task of the newest app."""

    def __init__(self, function: Callable[..., object], options: Mapping[str, object]) -> None:
        self._function, self._options = function, options

    def _found(self) -> CeleryTask:
        app = _apps[-1] if _apps else Celery()
        name = str(self._options.get("name") or app._name_of(self._function))
        return app.tasks[name]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._found(), name)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Run the function here."""
        return self._found()(*args, **kwargs)


def _schedule_name(name: str) -> str:
    return "".join(each if each.isalnum() or each in "-_." else "-" for each in name)


def _elsewhere(*args: object, **kwargs: object) -> None:
    raise NotInCompat("a task whose code is elsewhere", "it runs in its worker only")
