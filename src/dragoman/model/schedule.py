"""Schedules: which job is submitted when. Pure; `server.schedule_runner` computes the ticks.

A *tick* is an instant at which a schedule is due, in whole seconds since the epoch.
"""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from dragoman.model.value import field, value

#: After an outage: submit nothing, one job for the last missed tick, or one for each.
CATCH_UPS: Final = ("none", "last", "all")
#: If the last job has not ended at a tick: submit nothing, or submit nevertheless.
OVERLAPS: Final = ("skip", "allow")
_LONGEST_NAME: Final = 100
#: Members that reach records or the dispatch as they are, and the type of each in words.
_TYPES: Final = (
    ("text", (str,), ("name", "service", "task", "cron", "zone", "target", "catch_up", "overlap")),
    ("a whole number", (int,), ("every", "priority")),
    ("a number of seconds", (int, float), ("jitter",)),
    ("a number of seconds", (int, float, type(None)), ("timeout",)),
)


@value
class Schedule:
    """One schedule: `cron` in a time zone, or `every` so many seconds."""

    name: str
    service: str
    task: str = ""
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    cron: str = ""
    zone: str = "UTC"
    every: int = 0
    target: str = "any"
    #: Seconds that each job may take; None: no limit.
    timeout: float | None = None
    priority: int = 0
    #: Further options of the jobs, as `model.job_options` reads them.
    options: Mapping[str, Any] = field(default_factory=dict)
    catch_up: str = "last"
    overlap: str = "skip"
    #: Jobs start up to so many seconds after their tick.
    jitter: float = 0.0
    is_paused: bool = False
    #: Where it is declared: `settings`, or the client that added it.
    source: str = ""
    #: Whose its jobs are; empty: `anonymous`.
    principal: str = ""


def check_schedule(schedule: Schedule) -> None:
    """Raise ValueError if a schedule cannot be meant. The cron expression is not checked here."""
    _check_types(schedule)
    name = schedule.name
    if not name or len(name) > _LONGEST_NAME or not name.isprintable() or " " in name:
        raise ValueError(f"the name must be 1 to {_LONGEST_NAME} characters without spaces")
    if not (schedule.service and schedule.service.isprintable() and schedule.task.isprintable()):
        raise ValueError(f"schedule {name}: name a service, in printable characters")
    if bool(schedule.cron) == bool(schedule.every):
        raise ValueError(f"schedule {name}: set either cron or every")
    if schedule.every < 0:
        raise ValueError(f"schedule {name}: every must be at least 1 s")
    if schedule.catch_up not in CATCH_UPS:
        raise ValueError(f"schedule {name}: catch_up must be {', '.join(CATCH_UPS)}")
    if schedule.overlap not in OVERLAPS:
        raise ValueError(f"schedule {name}: overlap must be {' or '.join(OVERLAPS)}")
    if not 0 <= schedule.jitter <= 86_400:
        raise ValueError(f"schedule {name}: jitter must be 0 s to a day")


def _check_types(schedule: Schedule) -> None:
    """Refuse other types: a record with one could not be stored, and would stop the broker."""
    for words, types, names in _TYPES:
        for each in names:
            given = getattr(schedule, each)
            if not isinstance(given, types) or isinstance(given, bool):
                raise ValueError(f"schedule {schedule.name}: {each} must be {words}, not {given!r}")


def schedule_text(schedule: Schedule) -> str:
    """Write a schedule as JSON: its name, and the members that differ from the defaults."""
    members = {f.name: getattr(schedule, f.name) for f in fields(Schedule)}
    plain = Schedule("", "")
    kept = {k: v for k, v in members.items() if k == "name" or v != getattr(plain, k)}
    return json.dumps(kept, separators=(",", ":"))


def read_schedule(text: str) -> Schedule:
    """Parse what `schedule_text` wrote; ignore unknown members of newer versions."""
    members = json.loads(text)
    known = {f.name: members[f.name] for f in fields(Schedule) if f.name in members}
    if "args" in known:
        known["args"] = tuple(known["args"])
    return Schedule(**known)
