"""Reference pages of the documentation site, from the code."""

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import typer.main

import dragoman
from dragoman.cli.main import app
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.record import Kind
from dragoman.web.openapi import describe

#: What a caller does about a fault.
WHAT_TO_DO = {
    "bad_request": "Correct the request; the message names the field.",
    "too_large": "Send less, or pass a file (`docs/services.md`), or raise the limit.",
    "unmappable": "Use JSON values and bytes only, or a worker of your own dialect.",
    "denied": "Ask for the permission: `dragoman policy test` says which rule decides.",
    "conflict": "Use another job id or key, or the same body as before.",
    "duplicate": "Nothing, if one job is enough: the message names the job that has the key.",
    "not_deterministic": "Let the task make the same calls in the same order when it runs again.",
    "unknown_job": "Check the id. The retention of an old job may be over.",
    "result_gone": "Submit the job again; ask in time, or give it a longer `result_ttl`.",
    "no_worker": "Start a worker, or correct the service or target: `dragoman services`.",
    "queue_full": "Slow down and repeat; add workers or raise the limit of the queue.",
    "draining": "Repeat after the restart, or at another broker.",
    "unavailable": "Free the disk of the broker; it takes jobs again by itself.",
    "queue_timeout": "Repeat: it never ran. Add workers, or allow more time.",
    "run_timeout": "It may have run. Repeat only what may run twice; allow more time.",
    "job_timeout": "It may have run. Repeat only what may run twice; allow more time.",
    "task_failed": "Read the message: it is the exception of the task.",
    "worker_lost": "Nothing: the broker tries again, at most `max_attempts` times.",
    "handed_back": "Nothing: the broker gives the job to another worker.",
    "undelivered": "Nothing: the broker gives the job to another worker.",
    "exhausted": "Look at the job's last workers: it may be what ends them. `dragoman why JOB`.",
    "too_many_hops": "Break the circle of services that forward to each other.",
    "cancelled": "Nothing: the job does not run.",
    "cancel_unconfirmed": "Look at the worker: it may still run the job.",
}


def pages() -> dict[str, str]:
    """Return the pages by path."""
    return {
        "reference/cli.md": commands(),
        "reference/sdk.md": sdk(),
        "reference/http-operations.md": http(),
        "reference/faults.md": faults(),
        "reference/records.md": records(),
    }


def commands() -> str:
    """Return every command with its help and options."""
    text = "# Command line\n\nExit codes: 0 ok, 1 the job failed, 2 wrong usage, 3 the broker "
    text += "cannot be reached, 4 denied, 5 timed out.\n"
    return text + "".join(_commands(typer.main.get_command(app), "dragoman"))


def _commands(group: Any, path: str) -> Iterator[str]:
    for name, command in sorted(group.commands.items()):
        full = f"{path} {name}"
        if hasattr(command, "commands"):
            yield from _commands(command, full)
            continue
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        words = " ".join((p.metavar or p.name.upper()) for p in arguments)
        about = inspect.cleandoc(command.help or "")
        yield f"\n## {full}\n\n`{full} {words} [OPTIONS]`\n\n{about}\n"
        if command.epilog:
            yield f"\n{command.epilog.replace('Example: ', 'Example: `')}`\n"
        rows = [_option(each) for each in command.params]
        if rows:
            yield "\n| option | meaning |\n| --- | --- |\n" + "\n".join(rows) + "\n"


def _option(parameter: Any) -> str:
    is_option = parameter.param_type_name == "option"
    name = ", ".join(parameter.opts) if is_option else parameter.metavar or parameter.name.upper()
    return f"| `{name}` | {(getattr(parameter, 'help', '') or '').replace('|', chr(92) + '|')} |"


def sdk() -> str:
    """Return what `dragoman` exports, with signatures and docstrings."""
    text = "# Python\n\nEverything here is imported from `dragoman`.\n"
    for name in dragoman.__all__:
        member = getattr(dragoman, name)
        text += f"\n## {name}\n\n{inspect.getdoc(member) or ''}\n"
        if inspect.isclass(member) and not issubclass(member, BaseException):
            text += "".join(_methods(member))
    return text


def _methods(cls: type) -> Iterator[str]:
    for name, member in inspect.getmembers(cls):
        if name.startswith("_") or name not in cls.__dict__:
            continue
        if isinstance(member, property):
            yield f"\n### {cls.__name__}.{name}\n\n{inspect.getdoc(member) or ''}\n"
        elif inspect.isfunction(member):
            signature = f"{cls.__name__}.{name}{inspect.signature(member)}"
            yield f"\n### {cls.__name__}.{name}\n\n```python\n{signature}\n```\n\n"
            yield f"{inspect.getdoc(member) or ''}\n"


def http() -> str:
    """Return the operations of the HTTP interface."""
    text = "# HTTP operations\n\nThe page [HTTP](../docs/http.md) explains them; "
    text += "`/openapi.json` of a broker has this as OpenAPI.\n"
    for path, operations in describe()["paths"].items():
        for verb, operation in operations.items():
            if not isinstance(operation, dict) or "responses" not in operation:
                continue
            text += f"\n## {verb.upper()} {path}\n\n{operation.get('summary', '')}\n\n"
            text += "| status | meaning |\n| --- | --- |\n"
            for status, answer in operation["responses"].items():
                text += f"| {status} | {answer.get('description', '')} |\n"
    return text


def faults() -> str:
    """Return every fault, whether it is definite, and what to do."""
    text = "# Faults\n\nAfter a *definite* fault the work did not happen or has failed: "
    text += "repeating it cannot do it twice. After an *indefinite* one it may have happened.\n\n"
    text += "| fault | meaning | definite | what to do |\n| --- | --- | --- | --- |\n"
    for code, meaning in _comments(FaultCode).items():
        definite = "yes" if Fault(FaultCode(code)).is_definite else "no"
        text += f"| `{code}` | {meaning} | {definite} | {WHAT_TO_DO[code]} |\n"
    return text


def records() -> str:
    """Return every kind of record; each is also an event `broker.KIND`."""
    text = "# Records and events\n\nEvery state change is one record of the ledger. "
    text += "`dragoman events` shows each as an event `broker.KIND`.\n\n"
    text += "| kind | meaning |\n| --- | --- |\n"
    for kind, meaning in _comments(Kind).items():
        text += f"| `{kind}` | {meaning} |\n"
    return text


def _comments(members: type[Enum]) -> dict[str, str]:
    """Return the comments `#: ...` beside or above the members of an enumeration."""
    source = inspect.getsource(members).splitlines()
    found: dict[str, str] = {}
    above: list[str] = []
    for line in source:
        comment = re.search(r"#: ?(.*)", line)
        member = re.match(r'    [A-Z_]+ = "(\w+)"', line)
        if member:
            found[member[1]] = " ".join([*above, comment[1] if comment else ""]).strip()
            above = []
        elif comment or line.strip().startswith("#"):
            above.append(re.sub(r"^\s*#:? ?", "", line))
        else:
            above = []
    return {name: text.replace("|", "\\|") for name, text in found.items()}


def write(folder: Path) -> None:
    """Write the pages."""
    for path, text in pages().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
