"""Whose a subject is, by the names that nkeys may have."""

from dragoman.dialects.ncl.wire import CTRL, compute_subject
from dragoman.server.nodes import Nodes

ANNA, OTTO = "U" + "A" * 55, "U" + "B" * 55


def test_a_subject_has_the_key_of_its_node() -> None:
    nodes = Nodes(lambda: {ANNA: ("anna",), OTTO: ("otto", "edge 7")})
    assert nodes.key_of(compute_subject("anna", CTRL)) == f"nkey:{ANNA}"
    assert nodes.key_of(compute_subject("edge-7", CTRL)) == f"nkey:{OTTO}"
    assert nodes.key_of(compute_subject("nobody", CTRL)) == ""
    assert nodes.key_of("_INBOX.x") == ""


def test_every_nkey_is_a_user_with_the_subjects_of_its_nodes() -> None:
    first, second = Nodes(lambda: {OTTO: ("otto", "edge.7"), ANNA: ("anna",)}).users()
    assert first.nkey == ANNA
    assert compute_subject("anna", "out.>") in first.publish
    assert compute_subject("edge-7", "in.>") in second.subscribe
    assert compute_subject("anna", "in.>") not in second.subscribe


def test_a_name_that_is_no_node_id_gives_no_user() -> None:
    assert Nodes(lambda: {ANNA: ("",)}).users() == []


def test_a_key_that_is_no_longer_allowed_is_no_user() -> None:
    known = {ANNA: ("anna",)}
    nodes = Nodes(lambda: known)
    assert len(nodes.users()) == 1
    known.clear()
    assert nodes.users() == []
    assert nodes.key_of(compute_subject("anna", CTRL)) == ""
