"""Models: which empty members are written."""

import pytest
from tests.dialects.ncl_vectors import body

from dragoman.dialects.base import MalformedMessage
from dragoman.dialects.ncl.envelope import dump
from dragoman.dialects.ncl.models import Execution, NclTask, NodeInfo, NodeState, Resources
from dragoman.dialects.ncl.wire import read_json


def test_a_stored_node_state_is_byte_equal_both_ways() -> None:
    text = body("store.nodestate")
    assert dump(read_json(NodeState, text)) == text


def test_nothing_at_all_is_an_empty_object() -> None:
    assert dump(Resources()) == b"{}"


def test_whole_cores_have_no_fraction() -> None:
    assert dump(Resources(CPU=2)) == b'{"CPU":2}'
    assert dump(read_json(Resources, b'{"CPU":3.2}')) == b'{"CPU":3.2}'


def test_empty_lists_and_maps_are_null_and_texts_are_empty() -> None:
    text = dump(NodeInfo())
    assert b'"Labels":null' in text
    assert b'"NodeID":""' in text
    assert b"Major" not in text


def test_what_is_left_out_is_left_out() -> None:
    text = dump(Execution())
    assert b'"Job"' not in text
    assert b"PartitionIndex" not in text
    assert b'"Revision":0' in text
    assert dump(NclTask()) == b'{"Name":"","Engine":{"Type":""},"Publisher":{"Type":""}}'


@pytest.mark.parametrize(("text", "found"), [("compute", "Compute"), ("REQUESTER", "Requester")])
def test_node_types_are_read_without_regard_to_case(text: str, found: str) -> None:
    assert NodeInfo(NodeType=text).NodeType == found


def test_an_unknown_node_type_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="invalid node type: Worker"):
        read_json(NodeInfo, b'{"NodeType":"Worker"}')


@pytest.mark.parametrize("text", [b'{"Memory":1.0}', b'{"Memory":-1}', b'{"Memory":"1"}'])
def test_unsigned_members_take_plain_numbers_only(text: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read_json(Resources, text)
