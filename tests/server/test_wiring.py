"""The links a broker has are those its settings turn on."""

from dragoman.server.settings import load
from dragoman.server.wiring import make_links, make_wardrobe, new_id
from dragoman.transports.memory import MemoryHub


def names(**listen: str) -> set[str]:
    return {link.name for link in make_links(load(listen=listen), MemoryHub())}


def test_what_is_off_is_not_there_and_the_house_always_is() -> None:
    everything = names()
    assert {"local", "nfp", "dcp", "memo", "http"} <= everything
    assert names(nfp="off") == everything - {"nfp"}
    assert names(http="off") == everything - {"http"}


def test_either_end_of_zss_may_be_off() -> None:
    assert {"zss", "zss_backend"} <= names()
    assert "zss" not in names(zss="off")
    assert "zss_backend" in names(zss="off")
    assert not {"zss", "zss_backend"} & names(zss="off", zss_backend="off")


def test_every_dialect_has_a_dress_under_its_own_name() -> None:
    wardrobe = make_wardrobe()
    assert all(dress.name == name for name, dress in wardrobe.items())
    assert {"nfp", "dcp", "zss", "memo", "http", "local"} <= set(wardrobe)


def test_ids_are_fresh() -> None:
    assert len({new_id() for _ in range(1000)}) == 1000
