"""Rendezvous hashing: balanced, weighted, replicated, with minimal moves."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.core.resources import Distribution, Member, Moves, numbers, score, seed
from dragoman.model.names import PeerId, WorkerName

NAMES = [f"device-{n}" for n in range(2000)]


def joined(share: Distribution, *names: str, weight: float = 1.0) -> Moves:
    moves = Moves()
    for name in names:
        moves = share.join(PeerId(name), WorkerName(name), weight)
    return moves


def owners(share: Distribution) -> dict[str, tuple[str, ...]]:
    return {name: tuple(share.owners(name)) for name in share.names()}


def test_every_resource_has_an_owner_and_nobody_has_much_more_than_a_share() -> None:
    share = Distribution(NAMES)
    joined(share, *(f"w{n}" for n in range(10)))
    counts = Counter(owner for found in owners(share).values() for owner in found)
    assert sum(counts.values()) == len(NAMES)
    assert min(counts.values()) > 140
    assert max(counts.values()) < 260


def test_one_that_comes_takes_its_share_and_nothing_else_moves() -> None:
    share = Distribution(NAMES)
    joined(share, *(f"w{n}" for n in range(9)))
    before = owners(share)
    moves = joined(share, "new")
    changed = {name for name, found in owners(share).items() if found != before[name]}
    assert changed == set(moves.gained[PeerId("new")])
    assert len(changed) < 2 * len(NAMES) / 10
    assert sorted(n for lost in moves.lost.values() for n in lost) == sorted(changed)


def test_one_that_goes_leaves_its_own_and_nothing_else_moves() -> None:
    share = Distribution(NAMES)
    joined(share, *(f"w{n}" for n in range(10)))
    before = owners(share)
    own = set(share.owned(PeerId("w3")))
    moves = share.leave(PeerId("w3"))
    changed = {name for name, found in owners(share).items() if found != before[name]}
    assert changed == own == {n for names in moves.gained.values() for n in names}
    assert moves.lost == {}
    assert share.leave(PeerId("w3")) == Moves()


def test_shares_follow_weights() -> None:
    share = Distribution(NAMES)
    joined(share, "small-1", "small-2")
    joined(share, "large", weight=4.0)
    found = len(share.owned(PeerId("large")))
    assert 0.6 < found / len(NAMES) < 0.73


def test_a_changed_weight_is_heard_and_the_same_one_moves_nothing() -> None:
    share = Distribution(NAMES)
    joined(share, "a", "b")
    assert joined(share, "a") == Moves()
    before = len(share.owned(PeerId("a")))
    joined(share, "a", weight=9.0)
    assert len(share.owned(PeerId("a"))) > before


def test_replicas_are_different_workers_as_far_as_there_are_any() -> None:
    share = Distribution(NAMES[:200], replicas=3)
    joined(share, "a", "b")
    assert all(len(found) == 2 for found in owners(share).values())
    joined(share, "c", "d")
    assert all(len(set(found)) == 3 for found in owners(share).values())
    share.leave(PeerId("a"))
    assert all(set(found) == {"b", "c", "d"} for found in owners(share).values())


def test_what_is_declared_anew_moves_only_what_is_new() -> None:
    share = Distribution(NAMES[:100])
    joined(share, "a", "b", "c")
    before = owners(share)
    moves = share.declare(NAMES[50:150], 1)
    assert sorted(n for g in moves.gained.values() for n in g) == sorted(NAMES[100:150])
    assert sorted(n for lost in moves.lost.values() for n in lost) == sorted(NAMES[:50])
    assert {n: f for n, f in owners(share).items() if n in before} == {
        n: before[n] for n in NAMES[50:100]
    }


def test_more_replicas_keep_the_first_owner() -> None:
    share = Distribution(NAMES[:100])
    joined(share, "a", "b", "c")
    before = owners(share)
    moves = share.declare(NAMES[:100], 2)
    assert moves.lost == {}
    assert all(found[0] == before[name][0] for name, found in owners(share).items())


def test_numbers_are_the_same_everywhere_and_always() -> None:
    assert seed("device-1") == 12328502384846073323
    light, heavy = (Member(PeerId("w"), numbers("w"), weight) for weight in (1.0, 2.0))
    assert score(seed("r"), light) == 12576801148136609361
    assert score(seed("r"), heavy) > score(seed("r"), light)


def test_a_weighted_newcomer_takes_what_one_that_was_always_there_has() -> None:
    """The index range must include every resource that the worker wins."""
    for weight in (0.1, 0.5, 2.0, 7.5, 64.0):
        late, early = Distribution(NAMES), Distribution(NAMES)
        joined(late, *(f"w{n}" for n in range(30)))
        joined(late, "odd", weight=weight)
        joined(early, "odd", weight=weight)
        joined(early, *(f"w{n}" for n in range(30)))
        assert owners(late) == owners(early)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.sampled_from([0.5, 1.0, 3.0]))),
       st.integers(1, 3))  # fmt: skip
def test_the_order_of_comings_and_goings_does_not_matter(
    steps: list[tuple[bool, int, float]], replicas: int
) -> None:
    share = Distribution(NAMES[:60], replicas)
    here: dict[str, float] = {}
    for comes, number, weight in steps:
        name = f"w{number}"
        if comes:
            joined(share, name, weight=weight)
            here[name] = weight
        else:
            share.leave(PeerId(name))
            here.pop(name, None)
    fresh = Distribution(NAMES[:60], replicas)
    for name in sorted(here):
        joined(fresh, name, weight=here[name])
    assert owners(share) == owners(fresh)
    for name, found in owners(share).items():
        assert len(found) == min(replicas, len(here))
        assert all(name in share.owned(PeerId(peer)) for peer in found)


@pytest.mark.parametrize("replicas", [0, -3])
def test_less_than_one_owner_is_one(replicas: int) -> None:
    share = Distribution(["r"], replicas)
    joined(share, "a", "b")
    assert len(share.owners("r")) == 1
