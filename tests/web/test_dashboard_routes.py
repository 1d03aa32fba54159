"""The dashboard's files: small, whole, from this origin only."""

import re

import pytest
from tests.web.caller import Caller

from dragoman.web.dashboard_routes import read_files

#: Of the first page with everything it loads, in bytes.
BUDGET = 300_000


def test_the_first_page_is_small() -> None:
    assert sum(len(each.content) for each in read_files().values()) <= BUDGET


def test_nothing_is_loaded_from_elsewhere_and_nothing_is_inline() -> None:
    for name, each in read_files().items():
        text = each.content.decode()
        hosts = re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text)
        assert [host for host in hosts if "www.w3.org" not in host] == [], name
        assert "style=" not in text, name
        assert "innerHTML" not in text, name


def test_every_module_that_is_imported_exists() -> None:
    files = read_files()
    for name, each in files.items():
        for wanted in re.findall(r'from "\./([\w.]+)"', each.content.decode()):
            assert wanted in files, f"{name} imports {wanted}"


@pytest.mark.interop
def test_the_page_has_a_strict_policy_and_files_a_tag(caller: Caller) -> None:
    page = caller.get("/")
    assert page.status == 200
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    sheet = caller.get("/dashboard/style.css")
    assert caller.get("/dashboard/style.css", If_None_Match=sheet.headers["etag"]).status == 304
    assert caller.get("/dashboard/../app.py").status == 404
