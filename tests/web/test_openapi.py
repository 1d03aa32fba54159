"""The description says what there is: every route, and nothing else."""

import json
import re
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Route

from dragoman.dialects.http.settings import HttpSettings
from dragoman.web.app import Application
from dragoman.web.broker_connection import WebBrokerConnection
from dragoman.web.openapi import describe


def test_every_route_is_described_with_its_methods_and_nothing_else_is() -> None:
    application = Application(WebBrokerConnection(), HttpSettings(), lambda: "id")
    assert isinstance(application.asgi, Starlette)
    routes = {
        (re.sub(r":\w+}", "}", route.path), method)
        for route in application.asgi.routes
        if isinstance(route, Route) and route.path != "/openapi.json"
        for method in route.methods or ()
        if method != "HEAD"
    }
    described = {(p, m.upper()) for p, methods in describe()["paths"].items() for m in methods}
    assert described == routes


def test_every_reference_leads_somewhere() -> None:
    document = describe()
    assert document["openapi"] == "3.1.0"
    references = re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(document))
    assert references
    for reference in references:
        found: Any = document
        for name in reference.split("/"):
            found = found[name]


def test_every_name_in_a_path_is_a_parameter() -> None:
    for path, methods in describe()["paths"].items():
        for operation in methods.values():
            named = {p["name"] for p in operation.get("parameters", ()) if p["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))
