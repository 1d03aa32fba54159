"""The settings of services, of their tasks, and of schedules: the terms of jobs."""

from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from dragoman.model.capacity import NOTHING, Capacity
from dragoman.model.limit import Limit
from dragoman.model.retry import MOST_RETRIES, Retry
from dragoman.model.schedule import Schedule, check_schedule
from dragoman.model.terms import Terms
from dragoman.server.settings_section import SettingsSection


class TaskSection(SettingsSection):
    """Terms for the jobs of one task; what is not set stays as the service has it."""

    run_timeout: float | None = Field(
        default=None, gt=0, description="Seconds that one attempt may run."
    )
    timeout: float | None = Field(
        default=None, gt=0, description="Seconds that a job may take in all."
    )
    max_attempts: int | None = Field(
        default=None, ge=1, description="How often its worker may be lost before a job is dead."
    )
    backoff: float | None = Field(
        default=None,
        ge=0,
        description="First wait after a lost worker, in seconds; doubles.",
    )
    retries: int | None = Field(
        default=None,
        ge=0,
        le=MOST_RETRIES,
        description="How often a task that failed runs again, unless the call says so.",
    )
    retry_backoff: float = Field(
        default=1.0, ge=0, description="Wait before the first retry, in seconds."
    )
    retry_factor: float = Field(
        default=2.0, ge=1, description="Each wait is so much longer than the last; 1: all the same."
    )
    retry_longest: float = Field(
        default=600.0, ge=0, description="The longest wait between two attempts, in seconds."
    )
    retry_jitter: float = Field(
        default=0.0, ge=0, le=1, description="The share of each wait that is left to chance."
    )
    retry_on: tuple[str, ...] = Field(
        default=("task_failed",),
        description="Faults and names of exceptions after which a task runs again.",
    )

    concurrency: int = Field(
        default=0, ge=0, description="How many jobs may run at a time; 0: no limit."
    )
    rate: float = Field(
        default=0.0, ge=0, description="How many jobs may start in `rate_per` seconds; 0: no limit."
    )
    rate_per: float = Field(
        default=1.0, gt=0, le=86_400, description="The seconds in which `rate` jobs may start."
    )
    burst: int = Field(
        default=0,
        ge=0,
        description="How many jobs may start at once after a quiet time; 0: as many as `rate`.",
    )

    @property
    def limit(self) -> Limit:
        """The limit of the service or task."""
        return Limit("", self.concurrency, self.rate, self.rate_per, self.burst)

    def apply(self, terms: Terms) -> Terms:
        """Return terms, changed by what is set here. The retries of a call come first."""
        changes = {name: getattr(self, name) for name in self.changing}
        changes = {name: given for name, given in changes.items() if given is not None}
        if self.retries is not None and terms.retry is None:
            changes["retry"] = Retry(
                self.retries,
                self.retry_backoff,
                self.retry_factor,
                self.retry_longest,
                self.retry_jitter,
                self.retry_on,
            )
        return replace(terms, **changes)

    @property
    def changing(self) -> tuple[str, ...]:
        """The members that have the name of a term."""
        return ("run_timeout", "timeout", "max_attempts", "backoff")


class ServiceSection(TaskSection):
    """Terms for the jobs of one service; what is not set stays as the dialect has it."""

    durability: Literal["strict", "relaxed"] | None = Field(
        default=None,
        description="`strict`: a job is on disk before it is acknowledged. `relaxed`: sends do "
        "not wait for the disk.",
    )
    patience: float | None = Field(
        default=None, ge=0, description="Seconds that a job waits if no worker can take it."
    )
    queue_timeout: float | None = Field(
        default=None, gt=0, description="Seconds that a job may wait in the queue."
    )
    balance: Literal["least_loaded", "least_recently_used", "round_robin"] | None = Field(
        default=None, description="How the broker chooses among workers."
    )
    memoize: bool | None = Field(
        default=None, description="Whether the same request gets a remembered answer."
    )
    cpu: float = Field(default=0.0, ge=0, description="Cores that a job takes of its worker.")
    memory: int = Field(default=0, ge=0, description="Bytes of memory that a job takes.")
    disk: int = Field(default=0, ge=0, description="Bytes of disk that a job takes.")
    gpu: int = Field(default=0, ge=0, description="GPUs that a job takes.")

    tasks: dict[str, TaskSection] = Field(
        default_factory=dict, description="Terms for single tasks, by task name."
    )

    def apply(self, terms: Terms, task: str = "") -> Terms:
        """Return a dialect's terms, changed by what is set here and for the task."""
        own = self.tasks.get(task)
        terms = super().apply(own.apply(terms) if own is not None else terms)
        if own is not None:
            # What is set for the task comes before what is set for the service.
            terms = own.apply(terms)
        changes: dict[str, Any] = {}
        needs = Capacity(self.cpu, self.memory, self.disk, self.gpu)
        if needs != NOTHING:
            changes["needs"] = needs
        if self.durability is not None:
            changes["strict"] = self.durability == "strict"
        return replace(terms, **changes)

    @property
    def changing(self) -> tuple[str, ...]:
        """The members that have the name of a term."""
        return (*super().changing, "patience", "queue_timeout", "balance", "memoize")


class ScheduleSection(SettingsSection):
    """Jobs that the broker submits by itself; see `docs/queue.md`."""

    service: str = Field(default="", description="The service to call.")
    task: str = Field(default="", description="The task of that service.")
    args: list[Any] = Field(default_factory=list, description="Arguments by position.")
    kwargs: dict[str, Any] = Field(default_factory=dict, description="Arguments by name.")
    cron: str = Field(default="", description="When: a cron expression.")
    zone: str = Field(default="UTC", description="The time zone of the cron expression.")
    every: int = Field(default=0, ge=0, description="Or: every so many seconds.")
    target: str = Field(default="any", description="Which workers.")
    timeout: float | None = Field(default=None, gt=0, description="Seconds that a job may take.")
    priority: int = Field(default=0, description="Orders the jobs of schedules; higher first.")
    options: dict[str, Any] = Field(
        default_factory=dict, description="Further options of its jobs, such as `retries`."
    )
    catch_up: Literal["none", "last", "all"] = Field(
        default="last", description="For which ticks of an outage a job is submitted."
    )
    overlap: Literal["skip", "allow"] = Field(
        default="skip", description="Whether a tick is skipped while the last job has not ended."
    )
    jitter: float = Field(
        default=0.0, ge=0, description="Jobs start up to so many seconds after their tick."
    )

    def schedule(self, name: str) -> Schedule:
        """Return the schedule. Raises ValueError."""
        found = Schedule(name, **{**dict(self), "args": tuple(self.args)})
        check_schedule(found)
        return found
