"""Secrets are declared by path or as a reference; keys that look like secrets are a safety net."""

from typing import Any

import pytest

from dragoman.services.masks import MASK, Masks, is_secret_name
from dragoman.services.secret_references import SecretReference


@pytest.mark.parametrize(
    "name",
    ["password", "Password", "db_password", "enable-secret", "api_key", "apikey", "auth.token",
     "snmp_community", "private_key", "shared_key", "tokens", "adminPassword", "dbpassword", "pwd",
     "psk", "auth_pass", "access_key", "AccessKeys", "ssh_key", "jwt", "x-api-key", "userPWD"],
)  # fmt: skip
def test_names_that_look_like_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["user", "keyboard", "passworded", "tokenize", "host", "monkey", "key", "compass", "bypass"],
)
def test_names_that_do_not(name: str) -> None:
    assert not is_secret_name(name)


def test_everything_secret_is_masked_at_any_depth() -> None:
    tree = {
        "hosts": {"a": {"password": "x", "port": 22, "pins": ["p"], "mtu": [1]}},
        "tokens": ["t1", "t2"],
        "url": SecretReference("env", "URL"),
        "password": "",
        "secret": {"nested": "by its own name"},
    }
    assert Masks().masked(tree) == {
        "hosts": {"a": {"password": MASK, "port": 22, "pins": [MASK], "mtu": [1]}},
        "tokens": [MASK, MASK],
        "url": MASK,
        "password": "",
        "secret": {"nested": "by its own name"},
    }
    assert Masks().has_secrets(tree)
    assert not Masks().has_secrets({"a": [1, {"b": "c"}]})


def test_declared_paths_are_masked_whole_whatever_their_name() -> None:
    tree: Any = {"radius": {"shared": "x", "hosts": ["h"]}, "deep": {"knob": {"a": 1}}, "knob": 0}
    masks = Masks(["radius.shared", "KNOB"])
    assert masks.masked(tree) == {
        "radius": {"shared": MASK, "hosts": ["h"]},
        "deep": {"knob": MASK},
        "knob": MASK,
    }
    assert masks.secret_paths(tree) == ["radius.shared", "deep.knob", "knob"]


def test_a_declared_path_may_be_taken_out_of_the_safety_net_and_no_declaration_widens_it() -> None:
    masks = Masks(["!snmp.community", "psk"])
    tree = {"snmp": {"community": "public"}, "community": "c", "psk": "k", "password": "p"}
    assert masks.masked(tree) == {
        "snmp": {"community": "public"}, "community": MASK, "psk": MASK, "password": MASK
    }  # fmt: skip


def test_a_value_is_masked_by_the_path_it_is_set_at() -> None:
    assert Masks(["a.b"]).masked("x", ("a", "b")) == MASK
    assert Masks().masked({"c": "x"}, ("a", "password")) == {"c": "x"}
    assert Masks().masked("x", ("a", "password")) == MASK


def test_text_in_the_form_of_a_reference_is_data() -> None:
    assert Masks().masked({"note": "secret:file:/etc/passwd"}) == {
        "note": "secret:file:/etc/passwd"
    }
