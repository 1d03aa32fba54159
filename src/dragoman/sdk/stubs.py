"""Typed clients as Python text, from what a worker says about its tasks (`show_tasks`)."""

import json
import keyword
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

_PLAIN: Final = {
    "integer": "int",
    "number": "float",
    "string": "str",
    "boolean": "bool",
    "null": "None",
}
_HEAD: Final = '''\
"""Typed client of the service {service!r}, written by `dragoman stubs {service}`. Do not edit."""

from typing import Any, Literal

from dragoman import {client}


class {name}:
    """The tasks of {service!r}. `options` are those of `client.options`."""

    def __init__(self, client: {client}, **options: Any) -> None:
        self._service = client.options(**options).service({service!r})
'''


def python_type(schema: Mapping[str, Any]) -> str:
    """Return the annotation for a JSON schema; `Any` if it says nothing that Python can check."""
    if "enum" in schema:
        return f"Literal[{', '.join(map(repr, schema['enum']))}]"
    if "anyOf" in schema:
        found = [python_type(each) for each in schema["anyOf"]]
        return "Any" if "Any" in found else " | ".join(dict.fromkeys(found))
    kind = schema.get("type")
    if kind == "array":
        return f"list[{python_type(schema.get('items') or {})}]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {python_type(values) if isinstance(values, dict) else 'Any'}]"
    if "$ref" in schema:
        return "dict[str, Any]"
    return _PLAIN.get(kind, "Any") if isinstance(kind, str) else "Any"


def write_stubs(service: str, tasks: Sequence[Mapping[str, Any]], *, is_async: bool = False) -> str:
    """Return a module with one class, whose methods are the tasks of a service."""
    client = "AsyncClient" if is_async else "Client"
    text = _HEAD.format(service=service, client=client, name=class_name(service))
    for task in tasks:
        if _is_name(task["task"]):
            text += _method(task, is_async)
        else:
            text += f"\n    # {task['task']!r} is no name of a method; use `client.call`.\n"
    return text


def class_name(service: str) -> str:
    """Return a class name for a service: `my-service.v2` is `MyServiceV2`."""
    words = "".join(c if c.isalnum() else " " for c in service).split()
    name = "".join(word[0].upper() + word[1:] for word in words)
    return name if name.isidentifier() else f"Service{name}"


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text) and not text.startswith("_")


def _method(task: Mapping[str, Any], is_async: bool) -> str:
    parameters = [_PARAMETERS[each["kind"]](each) for each in task["parameters"]]
    by_keyword = [p for p in task["parameters"] if p["kind"] == "keyword_only"]
    has_rest = any(p["kind"] == "var_positional" for p in task["parameters"])
    if by_keyword and not has_rest:
        parameters.insert(task["parameters"].index(by_keyword[0]), "*")
    signature = ", ".join(["self", *parameters])
    passed = ", ".join(_PASSED[each["kind"]](each["name"]) for each in task["parameters"])
    returns = python_type(task.get("returns") or {})
    doc = (task.get("doc") or f"Call {task['task']!r}.").splitlines()[0]
    return (
        f"\n    {'async ' * is_async}def {task['task']}({signature}) -> {returns}:\n"
        f"        {json.dumps(doc, ensure_ascii=False)}\n"
        f"        result: {returns} = {'await ' * is_async}"
        f"self._service.{task['task']}({passed})\n"
        f"        return result\n"
    )


def _plain(parameter: Mapping[str, Any]) -> str:
    kind = python_type(parameter.get("schema") or {})
    if parameter["required"]:
        return f"{parameter['name']}: {kind}"
    default = parameter.get("default")
    takes_none = kind == "Any" or "None" in kind.split(" | ")
    kind = f"{kind} | None" if default is None and not takes_none else kind
    return f"{parameter['name']}: {kind} = {default!r}"


_PARAMETERS: Final[dict[str, Callable[[Mapping[str, Any]], str]]] = {
    "positional_only": _plain,
    "positional_or_keyword": _plain,
    "keyword_only": _plain,
    "var_positional": lambda each: f"*{each['name']}: Any",
    "var_keyword": lambda each: f"**{each['name']}: Any",
}
#: How an argument is passed on.
_PASSED: Final[dict[str, Callable[[str], str]]] = {
    "positional_only": lambda name: name,
    "positional_or_keyword": lambda name: name,
    "keyword_only": lambda name: f"{name}={name}",
    "var_positional": lambda name: f"*{name}",
    "var_keyword": lambda name: f"**{name}",
}
