"""Every dialect's descriptor makes ends that fit together."""

from itertools import count

import pytest

from dragoman.dialects.descriptor import Carrier, PeerTools, WorkerSpec
from dragoman.dialects.registry import DIALECTS, FOLDERS, body_codecs
from dragoman.model.setting import declared_settings

SPEC = WorkerSpec("w 1.x", ("math",), 2, {"zone": "a"})


def tools() -> PeerTools:
    numbers = count()
    return PeerTools(lambda: f"{next(numbers):032x}", lambda: 1000.0)


@pytest.mark.parametrize("name", DIALECTS)
def test_a_dialect_makes_its_codec_and_one_side_for_each_listener(name: str) -> None:
    dialect = DIALECTS[name]
    assert dialect.body_codec().name == name
    kind = dialect.settings_type()
    sides = dialect.broker_sides(body_codecs(), tools().ids, kind() if kind else None)
    assert len(sides) == len(dialect.listeners)
    assert {each.dialect for each in dialect.listeners} == {name}


@pytest.mark.parametrize("name", DIALECTS)
def test_a_dialect_makes_peers_whose_first_messages_the_broker_reads(name: str) -> None:
    dialect = DIALECTS[name]
    sides = dialect.broker_sides(body_codecs(), tools().ids)
    worker = dialect.worker_side(SPEC, tools())
    joining = worker.join()
    assert joining
    if dialect.carrier is Carrier.ZEROMQ:
        for frames in joining:
            sides[-1].receive(b"w1", frames, 1000.0)
    if dialect.carrier is Carrier.ZEROMQ and dialect.has_clients:
        for frames in dialect.client_side("c1", tools().ids).hello():
            sides[0].receive(b"c1", frames, 1000.0)


@pytest.mark.parametrize("name", DIALECTS)
def test_the_settings_of_a_dialect_say_what_they_set(name: str) -> None:
    kind = DIALECTS[name].settings_type()
    assert kind is not None
    for field in declared_settings(kind).values():
        assert field.metadata["description"].endswith(".")


def test_clients_use_the_first_listener_and_workers_the_last() -> None:
    zss = DIALECTS["zss"]
    assert (zss.client_listener.name, zss.worker_listener.name) == ("zss", "zss_backend")


def test_a_worker_of_one_service_refuses_several() -> None:
    with pytest.raises(ValueError, match="one service"):
        DIALECTS["nfp"].worker_side(WorkerSpec("w", ("a", "b")), tools())


def test_a_compute_node_has_one_token_as_its_id_and_reads_its_options() -> None:
    subjects = DIALECTS["ncl"].node_subjects()
    assert subjects is not None
    assert subjects.is_node_id("edge-7")
    assert not subjects.is_node_id("edge 7.x")
    assert all("edge" in each for each in subjects.may_publish("edge")[:2])
    spec = WorkerSpec("w", ("a",), options=(("fsync", "perhaps"),))
    with pytest.raises(ValueError, match="yes or no"):
        DIALECTS["ncl"].worker_side(spec, tools())


def test_every_folder_is_a_dialect_of_its_own_name() -> None:
    assert len(DIALECTS) == len(FOLDERS)
