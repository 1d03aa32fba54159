"""Sessions between brokers: who begins one, how it ends, and what has no effect."""

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some
from tests.dialects.mesh_fabric import MeshFabric

from dragoman.core.events import PeerLeft
from dragoman.dialects.base import MalformedMessage, Send
from dragoman.dialects.mesh import wire
from dragoman.dialects.mesh.settings import HOLD, MOST_NEIGHBOURS, NeighbourTerms
from dragoman.model.names import PeerId
from dragoman.model.terms import Terms

ATOMS = some.one_of(some.text(max_size=8), some.integers(-5, 5), some.floats(), some.none())


def linked() -> MeshFabric:
    fabric = MeshFabric(("west", "east"))
    fabric["east"].worker()
    fabric.wait(1.0)
    return fabric


def test_offers_go_both_ways_over_one_connection() -> None:
    fabric = linked()
    fabric["west"].worker("w2", "text")
    fabric.wait(2.0)
    assert fabric["west"].services() == {"math": "east/math:2"}
    assert fabric["east"].services() == {"text": "west/text:2"}


def test_offers_follow_the_registry_at_once() -> None:
    fabric = linked()
    fabric["east"].worker("w2", "text")
    fabric["east"].side.refresh()
    assert fabric["east"].side.next_deadline() == 0.0
    fabric["east"].send(fabric["east"].side.advance(fabric.now))
    fabric.talk()
    assert set(fabric["west"].services()) == {"math", "text"}
    fabric["east"].tell(PeerLeft(PeerId("local/w2"), "left"))
    fabric.wait(2.0)
    assert set(fabric["west"].services()) == {"math"}


def test_credit_is_the_number_of_slots_and_at_most_the_setting() -> None:
    fabric = MeshFabric(("west", "east"), terms=NeighbourTerms(credit=5))
    fabric["east"].worker("w1", credit=3)
    fabric.wait(2.0)
    assert fabric["west"].services() == {"math": "east/math:3"}
    fabric["east"].worker("w2", credit=30)
    fabric.wait(2.0)
    assert fabric["west"].services() == {"math": "east/math:5"}


def test_globs_bound_what_is_exported_and_imported() -> None:
    fabric = MeshFabric(("west", "east"), terms=NeighbourTerms(imports=("a*",), exports=("*1",)))
    for name in ("a1", "a2", "b1"):
        fabric["east"].worker(f"w-{name}", name)
    fabric.wait(2.0)
    assert set(fabric["west"].services()) == {"a1"}


def test_silence_ends_a_session_and_the_next_hello_begins_another() -> None:
    fabric = linked()
    fabric.cut.add(frozenset({"west", "east"}))
    fabric.wait(HOLD + 1.0)
    assert fabric["west"].services() == {}
    assert not fabric["east"].side.neighbours["west"].session
    fabric.cut.clear()
    fabric.wait(3.0)
    assert fabric["west"].services() == {"math": "east/math:2"}


def test_a_lost_connection_begins_a_new_session_at_once() -> None:
    fabric = linked()
    before = fabric["west"].side.neighbours["east"].session
    assert fabric["west"].side.receive(b"east", [], fabric.now) == []
    fabric.wait(0.5)
    after = fabric["west"].side.neighbours["east"].session
    assert after not in ("", before)
    assert fabric["west"].services() == {"math": "east/math:2"}


def test_a_message_of_an_old_session_has_no_effect() -> None:
    fabric = linked()
    terms = wire.write_terms(Terms(), None, ("west",))
    frames = wire.encode("west", "old", wire.Work("j1", "math", "add", terms))
    (answer,) = fabric["east"].side.receive(b"west", frames, fabric.now)
    assert isinstance(answer, Send)
    assert isinstance(wire.decode(answer.frames).message, wire.Strange)
    assert fabric["east"].kinds() == []


def test_a_broker_that_restarted_asks_for_a_new_session() -> None:
    fabric = linked()
    fabric["east"].restart()
    fabric["east"].worker()
    fabric.wait(2.5)
    assert fabric["east"].side.neighbours["west"].session
    assert fabric["west"].services() == {"math": "east/math:2"}


def test_two_brokers_that_connect_to_each_other_keep_one_session() -> None:
    fabric = MeshFabric(("west", "east"), ("east", "west"))
    fabric["east"].worker()
    fabric.wait(10.0)
    sessions = {
        fabric["west"].side.neighbours["east"].session,
        fabric["east"].side.neighbours["west"].session,
    }
    assert len(sessions) == 1
    assert fabric["west"].services() == {"math": "east/math:2"}
    resyncs = [r for r in fabric["west"].records if r.kind == "resynced"]
    assert len(resyncs) <= 1


def test_a_broker_of_the_same_name_is_malformed() -> None:
    fabric = linked()
    with pytest.raises(MalformedMessage, match="names must differ"):
        fabric["east"].side.receive(b"x", wire.encode("east", "s", wire.Hello()), fabric.now)


def test_a_flood_of_names_is_refused() -> None:
    side = linked()["east"].side
    for number in range(MOST_NEIGHBOURS - 1):
        side.receive(b"x", wire.encode(f"b{number}", "s", wire.Hello()), 1000.0)
    with pytest.raises(MalformedMessage, match="is refused"):
        side.receive(b"x", wire.encode("one-more", "s", wire.Hello()), 1000.0)


@given(some.recursive(ATOMS, lambda inner: some.lists(inner, max_size=4), max_leaves=20))
def test_whatever_a_neighbour_sends_is_read_or_malformed(content: object) -> None:
    side = linked()["east"].side
    session = side.neighbours["west"].session
    for tag in ("offers", "holds", "work", "cancel", "input", "poll", "reply", "ask", "told"):
        fields = content if isinstance(content, list) else [content]
        frames = [wire.MAGIC, b"west", session.encode(), b"", b"nfp", b"body"]
        frames[3] = msgspec.msgpack.encode([tag, *fields])
        with suppress(MalformedMessage):
            side.receive(b"west", frames, 1001.0)


def test_a_draining_broker_offers_nothing() -> None:
    fabric = linked()
    fabric["east"].broker.state.is_draining = True
    fabric.wait(2.0)
    assert fabric["west"].services() == {}


def test_the_way_to_a_service_is_never_offered_to_a_broker_on_it() -> None:
    fabric = MeshFabric(("a", "b"), ("b", "c"))
    fabric["c"].worker()
    fabric.wait(5.0)
    assert fabric["a"].services() == {"math": "b/math:2"}
    assert fabric["b"].services() == {"math": "c/math:2"}
    assert fabric["c"].services() == {}
