"""Whose a subject is, by the names that nkeys may have."""

from dragoman.dialects.ncl.dialect import NclSubjects
from dragoman.dialects.ncl.wire import CTRL, compute_subject
from dragoman.server.nodes import Nodes

ANNA, OTTO = "U" + "A" * 55, "U" + "B" * 55


def test_a_subject_has_the_key_of_its_node() -> None:
    nodes = Nodes(lambda: {ANNA: ("anna",), OTTO: ("otto", "edge-7")}, NclSubjects())
    assert nodes.key_of(compute_subject("anna", CTRL)) == f"nkey:{ANNA}"
    assert nodes.key_of(compute_subject("edge-7", CTRL)) == f"nkey:{OTTO}"
    assert nodes.key_of(compute_subject("nobody", CTRL)) == ""
    assert nodes.key_of("_INBOX.x") == ""


def test_every_nkey_is_a_user_with_the_subjects_of_its_nodes() -> None:
    first, second = Nodes(
        lambda: {OTTO: ("otto", "edge-7"), ANNA: ("anna",)}, NclSubjects()
    ).users()
    assert first.nkey == ANNA
    assert compute_subject("anna", "out.>") in first.publish
    assert compute_subject("edge-7", "in.>") in second.subscribe
    assert compute_subject("anna", "in.>") not in second.subscribe


def test_a_name_that_is_no_node_id_gives_no_user() -> None:
    for name in ("", "a.b", "a b", "a*", ">"):
        assert Nodes(lambda name=name: {ANNA: (name,)}, NclSubjects()).users() == []  # type: ignore[misc]


def test_a_name_with_a_dot_leads_to_no_other_node() -> None:
    nodes = Nodes(lambda: {ANNA: ("n1-sub",), OTTO: ("n1.sub",)}, NclSubjects())
    assert [user.nkey for user in nodes.users()] == [ANNA]
    assert nodes.key_of(compute_subject("n1-sub", CTRL)) == f"nkey:{ANNA}"


def test_a_name_that_a_token_allows_does_not_lead_to_another_principal() -> None:
    nodes = Nodes(lambda: {ANNA: ("anna", "otto"), OTTO: ("otto",)}, NclSubjects())
    first, _ = nodes.users()
    assert compute_subject("otto", "in.>") not in first.subscribe
    assert nodes.key_of(compute_subject("otto", CTRL)) == f"nkey:{OTTO}"


def test_a_key_that_is_no_longer_allowed_is_no_user() -> None:
    known = {ANNA: ("anna",)}
    nodes = Nodes(lambda: known, NclSubjects())
    assert len(nodes.users()) == 1
    known.clear()
    assert nodes.users() == []
    assert nodes.key_of(compute_subject("anna", CTRL)) == ""
