"""What time does to nodes: progress is recorded, and who stays away is forgotten, on record."""

from tests.dialects.ncl_fabric import Fabric

from dragoman.model.content import Answer


def test_progress_of_a_node_is_put_on_record_now_and_then() -> None:
    fabric = Fabric()
    node = fabric.add()
    fabric.submit()
    node.finish(node.works[0], Answer(value=1))
    before = fabric.kinds().count("changed")
    fabric.wait(31)
    assert fabric.kinds().count("changed") == before + 1
    fabric.wait(120)
    assert fabric.kinds().count("changed") == before + 1
