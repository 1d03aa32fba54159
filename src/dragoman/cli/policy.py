"""`dragoman policy`: test and check the policy, list its roles."""

from pathlib import Path

import typer

from dragoman.cli.broker_files import (
    CONFIG,
    DATA,
    NAMESPACE,
    find_settings,
    open_registry,
    policy_file,
)
from dragoman.cli.output import AS_JSON, print_done, print_json, print_rows
from dragoman.security.policy_file import PolicyFile
from dragoman.security.verbs import AccessRequest, TargetClass, Verb, canonical_service

app = typer.Typer(no_args_is_help=True, help="Test and check the policy, and list its roles.")


@app.command("test")
def try_(
    principal: str = typer.Argument(help="A name, or `anonymous`."),
    verb: Verb = typer.Argument(help="The operation."),
    service: str = typer.Argument("", help="The service; any if not given."),
    task: str = typer.Option("", help="The task of the service."),
    target: TargetClass = typer.Option(TargetClass.ANY, help="The kind of target."),
    name: list[str] = typer.Option([], help="A worker's name; may be repeated."),
    group: list[str] = typer.Option([], help="A group of its token, ISSUER:GROUP; repeatable."),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    namespace: str = NAMESPACE,
    as_json: bool = AS_JSON,
) -> None:
    """Print whether a principal may do something, and which rule decides.

    Exits with 0 if it is allowed and with 4 if it is denied. Example:
    `dragoman policy test alice submit resize --task run`.
    """
    settings = find_settings(config, data, namespace)
    policy = PolicyFile(policy_file(settings)).policy
    given = open_registry(settings).entry_of(principal).roles
    roles = policy.roles_of(principal, given, tuple(group))
    ask = AccessRequest(verb, canonical_service(service), task, target, tuple(name))
    decision = policy.decide(roles, ask)
    word = "allowed" if decision.is_allowed else "denied"
    if as_json:
        answer = {"decision": word, "reason": decision.reason, "roles": roles, "asked": str(ask)}
        print_json(answer)
    else:
        typer.echo(f"{word}: {principal} ({', '.join(roles) or 'no roles'}): {decision.reason}")
    if not decision.is_allowed:
        raise typer.Exit(4)


@app.command()
def check(
    file: Path | None = typer.Argument(None, help="A policy; the broker's if not given."),
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    namespace: str = NAMESPACE,
    as_json: bool = AS_JSON,
) -> None:
    """Read a policy and print its first error, if there is one."""
    path = file or policy_file(find_settings(config, data, namespace))
    if not path.is_file():
        raise ValueError(f"{path}: no such file")
    policy = PolicyFile(path).policy
    roles, rules = len(policy.roles), len(policy.grants)
    groups = len(policy.groups)
    text = f"{path}: {roles} roles, {rules} rules about principals, {groups} about groups"
    print_done(text, as_json, file=path, roles=roles, rules=rules, groups=groups)


@app.command()
def roles(
    config: Path | None = CONFIG,
    data: Path | None = DATA,
    namespace: str = NAMESPACE,
    as_json: bool = AS_JSON,
) -> None:
    """List every role and what its rules allow or deny."""
    policy = PolicyFile(policy_file(find_settings(config, data, namespace))).policy
    rows = [
        {
            "role": role,
            "rule": number,
            "effect": "deny" if rule.is_denial else "allow",
            "verbs": sorted(verb.value for verb in rule.verbs),
            "services": list(rule.services),
            "tasks": list(rule.tasks),
            "targets": sorted(each.value for each in rule.targets),
            "names": list(rule.names),
        }
        for role, rules in policy.roles.items()
        for number, rule in enumerate(rules, 1)
    ]
    print_rows(rows, as_json, "no roles")
