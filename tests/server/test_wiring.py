"""The links a broker has are those its settings turn on."""

from dragoman.dialects.registry import body_codecs
from dragoman.server.settings_sources import load
from dragoman.server.wiring import make_links, new_id
from dragoman.transports.memory import MemoryHub
from dragoman.transports.nats import Nats
from dragoman.transports.nats_server import NatsServer


def names(**listen: str) -> set[str]:
    return {link.name for link in make_links(load(listen=listen), MemoryHub())}


def test_links_that_are_off_are_missing_and_the_built_in_link_is_always_there() -> None:
    everything = names()
    assert {"local", "nfp", "dcp", "memo", "http"} <= everything
    assert names(nfp="off") == everything - {"nfp"}
    assert names(http="off") == everything - {"http"}


def test_either_end_of_zss_may_be_off() -> None:
    assert {"zss", "zss_backend"} <= names()
    assert "zss" not in names(zss="off")
    assert "zss_backend" in names(zss="off")
    assert not {"zss", "zss_backend"} & names(zss="off", zss_backend="off")


def test_every_dialect_has_a_body_codec_under_its_own_name() -> None:
    codecs = body_codecs()
    assert all(codec.name == name for name, codec in codecs.items())
    assert {"nfp", "dcp", "zss", "memo", "http", "local"} <= set(codecs)


def test_ids_are_fresh() -> None:
    assert len({new_id() for _ in range(1000)}) == 1000


def test_nats_is_ncl_s_listener_and_may_be_external() -> None:
    def server_of(nats: str) -> NatsServer | None:
        links = make_links(load(listen={"nats": nats}), MemoryHub())
        (link,) = [each for each in links if each.name == "ncl"]
        assert link.listener == "nats"
        assert isinstance(link.transport, Nats)
        found = link.transport.server
        assert found is None or isinstance(found, NatsServer)
        return found

    assert "ncl" not in names(nats="off")
    for own in ("", "tcp://127.0.0.1:0"):
        assert server_of(own) is not None
    exact = server_of("tcp://127.0.0.1:4333")
    assert exact is not None
    assert exact.port == 4333
    assert server_of("nats://elsewhere:4222") is None
