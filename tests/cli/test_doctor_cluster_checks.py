"""How a running cluster is, as the doctor judges it: each trouble is named, with what to do."""

from typing import Any

import pytest

from dragoman.cli.doctor.check_results import BAD, OK, WARNING
from dragoman.cli.doctor.cluster_checks import ClusterFacts, judge
from dragoman.server.cluster_sync import ServerSync
from dragoman.server.member_channel import Content
from dragoman.transports.jetstream import StreamServers

SAFE = ServerSync({"a": 0.0, "b": 0.0, "c": 0.0})
MARKS = {"a": "m", "b": "m", "c": "m"}


def row(node: str, **more: Any) -> Content:
    role = "leader" if node == "a" else "standby"
    told = {"role": role, "leader": "a", "epoch": 4, "lag": 0, "last": 90, "version": "1"}
    return {"node": node, **told, **more}


def facts(*rows: Content, **more: Any) -> ClusterFacts:
    found = rows or (row("a"), row("b"), row("c"))
    given: dict[str, Any] = {
        "size": 3,
        "rows": found,
        "later": found,
        "servers": StreamServers("a", ("a", "b", "c"), ()),
        "sync": SAFE,
        "seq": 90,
        "marks": MARKS,
    }
    return ClusterFacts(**given | more)


def verdicts(found: ClusterFacts) -> dict[str, str]:
    return {each.text: each.verdict for each in judge(found)}


def trouble(found: ClusterFacts) -> tuple[str, str]:
    """Return the only result that is not ok."""
    ((text, verdict),) = [(t, v) for t, v in verdicts(found).items() if v != OK]
    return verdict, text


def test_all_is_well() -> None:
    found = verdicts(facts())
    assert set(found.values()) == {OK}
    assert list(found) == [
        "3 of 3 nodes answer",
        "a leads, epoch 4",
        "no standby is far behind",
        "the stream is led by a, complete on a, b, c",
        "the copies of a, b, c agree up to record 90",
        "each write is synced to disk on a, b, c",
    ]


def test_a_silent_node_is_named_and_the_next_loss_is_told() -> None:
    verdict, text = trouble(facts(row("a"), row("b")))
    assert verdict == WARNING
    assert "2 of 3 nodes answer; silent: c." in text
    assert "one more loss stops strict work" in text
    assert "cluster remove" in text


def test_without_a_majority_there_is_no_leader_and_no_stream() -> None:
    away = facts(row("c", leader=""), servers=StreamServers("", (), ()), marks={"c": "m"})
    found = [text for text, verdict in verdicts(away).items() if verdict == BAD]
    assert "silent: one more, one more" in found[0]
    assert "without a majority" in found[0]
    assert "no node leads; the stream has no leader" in found[1]
    assert "start nodes until a majority runs" in found[2]


def test_no_leader_though_the_stream_has_one() -> None:
    rows = [row(node, role="standby", leader="") for node in "abc"]
    verdict, text = trouble(facts(*rows))
    assert (verdict, text) == (BAD, "no node leads; their logs say why")


def test_two_leaders_are_told_apart_by_their_epochs() -> None:
    rows = [row("a"), row("b", role="leader", leader="b", epoch=5), row("c", leader="b", epoch=5)]
    verdict, text = trouble(facts(*rows))
    assert verdict == BAD
    assert "b (epoch 5) and a say that they lead" in text
    assert "restart a" in text


def test_members_that_disagree_are_named() -> None:
    verdict, text = trouble(facts(row("a"), row("b"), row("c", leader="b", epoch=3)))
    assert verdict == WARNING
    assert "c follows b (epoch 3), but a leads (epoch 4)" in text
    verdict, text = trouble(facts(row("a"), row("b"), row("c", role="neither")))
    assert "c neither leads nor follows" in text


def test_a_standby_far_behind_is_watched_for_a_moment() -> None:
    first = (row("a"), row("b"), row("c", lag=5000))
    for now, expected in ((400, "and catching up"), (6000, "does not catch up")):
        found = facts(*first, later=(row("a"), row("b"), row("c", lag=now)))
        verdict, text = trouble(found)
        assert verdict == WARNING
        assert f"c is {now} messages behind" in text
        assert expected in text
    caught_up = facts(*first, later=(row("a"), row("b"), row("c")))
    assert set(verdicts(caught_up).values()) == {OK}


@pytest.mark.parametrize(
    ("current", "behind", "expected"),
    [
        (("a", "b"), ("c",), (WARNING, "Stop no other node until these are complete")),
        (("a",), ("b", "c"), (BAD, "fewer than a majority is complete")),
    ],
)
def test_copies_that_are_not_complete(
    current: tuple[str, ...], behind: tuple[str, ...], expected: tuple[str, str]
) -> None:
    verdict, text = trouble(facts(servers=StreamServers("a", current, behind)))
    assert verdict == expected[0]
    assert expected[1] in text
    assert ", ".join(behind) in text


def test_a_stream_with_one_copy_is_not_replicated() -> None:
    alone = facts(servers=StreamServers("n1", ("n1",), ()), has_own_servers=False)
    assert "cluster.replicas" in trouble(alone)[1]


def test_a_copy_that_differs_is_replaced() -> None:
    verdict, text = trouble(facts(marks=MARKS | {"c": "other"}))
    assert verdict == BAD
    assert "the copy of c differs" in text
    assert "stop c, move its data folder away and start it" in text
    verdict, text = trouble(facts(marks={"a": "m", "b": "other"}))
    assert "keep all data folders" in text
    verdict, text = trouble(facts(marks=MARKS | {"c": ""}))
    assert verdict == WARNING
    assert "c cannot show record 90" in text


def test_an_upgrade_that_is_not_finished() -> None:
    assert "finish the upgrade" in trouble(facts(row("a"), row("b"), row("c", version="2")))[1]


def test_servers_that_sync_now_and_then_are_bad_and_unknown_ones_a_warning() -> None:
    assert trouble(facts(sync=ServerSync({"n1": 120.0})))[0] == BAD
    assert trouble(facts(sync=ServerSync({"n1": None})))[0] == WARNING


def test_before_the_first_record_there_is_nothing_to_compare() -> None:
    new = facts(seq=0, marks=dict.fromkeys("abc", ""))
    assert set(verdicts(new).values()) == {OK}
    assert not [text for text in verdicts(new) if "record 0" in text]
