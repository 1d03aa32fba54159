"""What the base of all descriptors does for a dialect that says nothing."""

import pytest

from dragoman.dialects.descriptor import Carrier, Dialect, ListenerSpec, WorkerSpec


class Bare(Dialect):
    """A dialect with a listener and nothing else."""

    name = "bare"
    carrier = Carrier.ZEROMQ
    listeners = (ListenerSpec("bare", "bare", 1234, "bare peers"),)


def test_a_dialect_has_no_extras_unless_it_declares_them() -> None:
    bare = Bare()
    assert bare.client_listener is bare.worker_listener
    assert bare.management_tasks(None) == {}
    assert bare.node_subjects() is None
    assert bare.fuzz_seeds("bare") == []
    assert not bare.acknowledges
    assert not bare.key_is_job_id
    with pytest.raises(NotImplementedError):
        bare.body_codec()


def test_a_listener_is_on_the_loopback_unless_it_says_otherwise() -> None:
    spec = ListenerSpec("x", "x", 7, "peers")
    assert spec.default == "tcp://127.0.0.1:7"
    assert spec.complete("host:1") == "tcp://host:1"
    assert spec.complete("off") == "off"
    assert ListenerSpec("x", "x", 7, "peers", endpoint="").default == ""


def test_a_worker_has_one_service_where_only_one_fits() -> None:
    assert WorkerSpec("w", ("a",)).only_service == "a"
