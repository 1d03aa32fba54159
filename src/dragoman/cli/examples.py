"""An example of each command, shown at the end of its help."""

from collections.abc import Mapping
from typing import Final

import typer

#: Words of the command, without `dragoman`, then the rest of the example.
EXAMPLES: Final[Mapping[str, str]] = {
    "audit anchor": "--to heads.jsonl",
    "audit verify": "",
    "call": 'math add \'{"x": 2, "y": 3}\'',
    "cancel": "JOB",
    "context add": "lab --url nfp://lab.example:5555 --key lab.key",
    "context remove": "lab",
    "context use": "lab",
    "dead drop": "--service photos --older 86400",
    "dead list": "--service photos",
    "dead retry": "--service photos --fault task_failed",
    "dead show": "JOB",
    "demo": "--no-spark",
    "doctor": "",
    "events": "'broker.ended' --follow",
    "files details": "firmware/image.bin",
    "files fetch": "firmware/image.bin image.bin",
    "files list": "--recursive",
    "files put": "image.bin firmware/image.bin",
    "forget": "photos",
    "forget-result": "6f1d2c",
    "init": "/etc/dragoman --host 0.0.0.0 --name broker.example",
    "inventory delete": "'switch-*' site.room",
    "inventory get": "switch-1",
    "inventory history": "--limit 5",
    "inventory set": "'switch-*' site.city '\"Zurich\"'",
    "inventory undo": "",
    "jobs": "--state failed --limit 20",
    "keys approve": "--pending 'switch-*' --role worker",
    "keys invite": "--service photos --name 'camera-*' --minutes 30",
    "keys list": "--state pending",
    "keys new": "alice --role submitter --out alice.key",
    "keys revoke": "alice",
    "keys roles": "alice submitter",
    "keys rotate": "alice --out alice-2.key",
    "ledger backup": "/backup/monday",
    "ledger repair": "repaired",
    "ledger restore": "/backup/monday",
    "ledger verify": "",
    "nodes approve": "NODE",
    "nodes reject": "NODE",
    "pause": "photos --reason 'disk is full'",
    "pipeline audit": "--tables dragoman-data/tables",
    "pipeline query": "'select service, count(*) from jobs group by service'",
    "pipeline report": "--out report.html",
    "pipeline run": "--audit --report report.html",
    "pipeline vacuum": "--dry-run",
    "policy check": "policy.toml",
    "policy test": "alice submit photos",
    "result": "JOB --timeout 60",
    "resume": "photos",
    "schedule list": "",
    "schedule pause": "nightly",
    "schedule remove": "nightly",
    "schedule resume": "nightly",
    "schedule run": "nightly",
    "services": "--all",
    "settings": "http --changed",
    "status": "",
    "stubs": "photos --out photos_client.py",
    "submit": 'photos album \'{"photos": ["a", "b"]}\' --delay 60',
    "top": "--url http://127.0.0.1:8420",
    "why": "JOB",
    "worker": "tasks --service photos --url nfp://127.0.0.1:5555",
    "workers": "--json",
}


def add_examples(app: typer.Typer, path: str = "") -> None:
    """Add the examples to the help of all commands."""
    for command in app.registered_commands:
        name = command.name or getattr(command.callback, "__name__", "").replace("_", "-")
        full = f"{path} {name}".strip()
        if full in EXAMPLES:
            command.epilog = f"Example: {example_of(full)}"
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_examples(group.typer_instance, f"{path} {group.name}".strip())


def example_of(command: str) -> str:
    """Return the whole example of a command."""
    return f"dragoman {command} {EXAMPLES[command]}".rstrip()
