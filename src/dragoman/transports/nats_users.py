"""The users of a NATS server, in the syntax of its configuration.

Users authenticate with an nkey. Each may publish and subscribe to some subjects, and may answer the
requests it receives.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

#: Answers to one request, and how long it may be answered: a log stream answers one request.
_ANSWERS: Final = '{ max: 1000000, expires: "24h" }'
#: Seconds that a connection has to authenticate, and most connections.
_PROVE_WITHIN: Final = 2
_CONNECTIONS: Final = 20_000
_NKEY: Final = re.compile(r"U[A-Z2-7]{55}")
_ACCOUNT: Final = re.compile(r"[a-z0-9-]+")
#: Characters of a subject; others could end the quoted string in the configuration.
_SUBJECT: Final = re.compile(r"[^\s\"\\]+")


class NatsUser(NamedTuple):
    """One user: its public nkey and its subjects."""

    nkey: str
    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


class NatsAccount(NamedTuple):
    """An account: its users exchange no message with those of another one."""

    name: str
    owner: str
    users: tuple[NatsUser, ...]


def accounts(found: Sequence[NatsAccount]) -> str:
    """Return the configuration section of accounts beside the main one."""
    return "\n".join(["accounts {", *map(_account, found), "}"])


def _account(account: NatsAccount) -> str:
    users = _users(account.owner, account.users)
    return f'  "{_checked(_ACCOUNT, account.name)}": {{ users = [\n{users}\n  ] }}'


def authorization(owner: str, users: Sequence[NatsUser]) -> str:
    """Return the configuration section: the owner may do everything, users only their subjects."""
    body = _users(owner, users)
    return (
        f"max_connections: {_CONNECTIONS}\n"
        f"authorization {{\n  timeout: {_PROVE_WITHIN}\n  users = [\n{body}\n  ]\n}}"
    )


def _users(owner: str, users: Sequence[NatsUser]) -> str:
    return ",\n".join([f"    {{ nkey: {_checked(_NKEY, owner)} }}", *map(_user, users)])


def _user(user: NatsUser) -> str:
    return (
        f"    {{ nkey: {_checked(_NKEY, user.nkey)}, permissions: {{\n"
        f"      publish: {{ allow: {_subjects(user.publish)} }}\n"
        f"      subscribe: {{ allow: {_subjects(user.subscribe)} }}\n"
        f"      allow_responses: {_ANSWERS}\n    }} }}"
    )


def _subjects(subjects: tuple[str, ...]) -> str:
    return "[" + ", ".join(f'"{_checked(_SUBJECT, s)}"' for s in subjects) + "]"


def _checked(form: "re.Pattern[str]", text: str) -> str:
    if not form.fullmatch(text):
        raise ValueError(f"{text!r} cannot be written into a NATS configuration")
    return text
