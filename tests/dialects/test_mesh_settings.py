"""What is taken from a neighbour and offered to it."""

from dragoman.dialects.mesh.settings import LISTENER, NeighbourTerms


def test_globs_decide_what_crosses() -> None:
    terms = NeighbourTerms(imports=("math*",), exports=("net.*", "files"))
    assert terms.takes("maths")
    assert not terms.takes("files")
    assert terms.gives("net.cli")
    assert not terms.gives("maths")


def test_by_default_everything_crosses_and_nobody_listens() -> None:
    assert NeighbourTerms().takes("a")
    assert NeighbourTerms().gives("a")
    assert LISTENER.default == "off"
