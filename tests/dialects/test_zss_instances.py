"""Who offers which sid in which version."""

import pytest

from dragoman.dialects.zss.instances import ServiceInstances, age
from dragoman.model.names import PeerId

A, B, C = PeerId("zss_backend/A"), PeerId("zss_backend/B"), PeerId("zss_backend/C")


def test_names_are_not_case_sensitive() -> None:
    instances = ServiceInstances({})
    assert instances.up(A, "Pong")
    assert not instances.up(A, "PONG")
    assert instances.is_up(A, "pong")
    assert instances.find("pOnG", "*") == "pong"
    assert instances.services(A) == ("pong",)
    assert instances.sid(A, instances.name("pong")) == "PONG"
    assert instances.down(A, "pong")
    assert not instances.down(A, "pong")


def test_one_instance_may_have_several_sids() -> None:
    instances = ServiceInstances({})
    instances.up(A, "one")
    instances.up(A, "two")
    assert instances.services(A) == ("one", "two")
    instances.down(A, "one")
    assert instances.services(A) == ("two",)
    instances.forget(A)
    assert instances.services(A) == ()
    instances.forget(A)


def test_the_wildcard_is_the_newest_version_and_others_are_exact() -> None:
    instances = ServiceInstances({})
    for peer, sid in ((A, "pong@1.9.0"), (B, "PONG@1.10.0"), (C, "pong")):
        instances.up(peer, sid)
    assert instances.find("PONG", "*") == "pong@1.10.0"
    assert instances.find("PONG", "") == "pong@1.10.0"
    assert instances.find("PONG", "1.9.0") == "pong@1.9.0"
    assert instances.find("PONG", "9.9.9") == "pong@9.9.9"
    assert instances.services(B) == ("pong", "pong@1.10.0")
    assert instances.services(C) == ("pong",)
    assert instances.sid(B, instances.find("PONG", "*")) == "PONG@1.10.0"
    instances.down(B, "pong@1.10.0")
    assert instances.find("PONG", "*") == "pong@1.9.0"
    instances.forget(A)
    assert instances.find("PONG", "*") == "pong"


def test_a_version_is_there_while_one_instance_has_it() -> None:
    instances = ServiceInstances({})
    instances.up(A, "pong@2")
    instances.up(B, "pong@2")
    instances.forget(A)
    assert instances.find("pong", "*") == "pong@2"


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("1.9.0", "1.10.0"),
        ("1.0", "1.0.1"),
        ("1.0.0-rc1", "1.0.0"),
        ("1.0.0-alpha", "1.0.0-beta"),
        ("beta", "1"),
        ("2", "10"),
    ],
)
def test_versions_are_ordered_as_people_mean_them(older: str, newer: str) -> None:
    assert age(older) < age(newer)


def test_settings_may_name_services_with_capitals() -> None:
    instances = ServiceInstances({"netbox": "NetBox"})
    assert instances.find("NETBOX", "*") == "NetBox"
    assert instances.find("nornir", "*") == "nornir"


def test_the_reserved_name_is_not_a_sid() -> None:
    assert ServiceInstances({}).find("ALL", "*") != "all"


def test_an_unknown_instance_is_asked_by_the_name_of_the_service() -> None:
    assert ServiceInstances({}).sid(A, ServiceInstances({}).name("pong")) == "PONG"
