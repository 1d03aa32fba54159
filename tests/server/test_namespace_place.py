"""The status of the default namespace lists the others, and no other status does."""

from types import SimpleNamespace
from typing import Any

from dragoman.server.namespace_place import NamespacePlace
from dragoman.services.base import TaskTable


def management() -> Any:
    status = {"status": "ready"}
    tasks = TaskTable("management", {"show_status": lambda: status})
    return SimpleNamespace(show_status=lambda: status, tasks=tasks)


def shown(place: NamespacePlace) -> Any:
    found = management()
    place.extend(found)
    return found.tasks._tasks["show_status"]()


def test_only_a_place_that_is_told_the_others_lists_them() -> None:
    default, acme = NamespacePlace("default", 2, None), NamespacePlace("acme", 2, None)
    default.states = lambda: {"acme": "serving"}
    assert shown(default) == {"status": "ready", "namespaces": {"acme": "serving"}}
    assert shown(acme) == {"status": "ready"}


def test_without_shared_listeners_a_key_may_be_in_several_namespaces() -> None:
    assert not NamespacePlace("acme", 2, None).is_elsewhere("nkey:U")
