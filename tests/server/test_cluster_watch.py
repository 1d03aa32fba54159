"""The leader tells about all nodes: their roles and lags, and the copies of the stream."""

import asyncio
from typing import Any

import pytest

from dragoman.core.view import ClusterMemberRow
from dragoman.server.cluster_watch import ClusterWatch
from dragoman.transports.jetstream import StreamServers, stream_servers

ROWS = [
    {"node": "b", "role": "standby", "last": 8, "lag": 2},
    {"node": "a", "role": "leader", "last": 10, "lag": 0},
]


async def answers() -> list[dict[str, Any]]:
    return ROWS


def watch(found: StreamServers | None) -> ClusterWatch:
    def servers() -> StreamServers:
        if found is None:
            raise TimeoutError("the stream has no leader")
        return found

    return ClusterWatch(3, answers, servers, lambda: True)


def test_it_knows_the_nodes_that_answer_and_the_copies_of_the_stream() -> None:
    made = watch(StreamServers("b", ("a", "b"), ("c",)))
    asyncio.run(made.look())
    state = made.state
    assert state.members == (
        ClusterMemberRow("a", "leader", 10, 0),
        ClusterMemberRow("b", "standby", 8, 2),
    )
    assert (state.size, state.stream_leader, state.stream_behind) == (3, "b", ("c",))
    assert state.has_quorum


def test_without_an_answer_of_the_stream_there_is_no_majority() -> None:
    made = watch(None)
    asyncio.run(made.look())
    assert not made.state.has_quorum
    assert len(made.state.members) == 2


def test_it_looks_until_it_is_stopped_while_it_is_wanted() -> None:
    async def story() -> int:
        looked, looks = asyncio.Event(), 0

        async def ask() -> list[dict[str, Any]]:
            nonlocal looks
            looks += 1
            looked.set()
            return ROWS

        made = ClusterWatch(3, ask, lambda: StreamServers("a", ("a",), ()), lambda: True)
        made.start()
        await asyncio.wait_for(looked.wait(), 10)
        await made.stop()
        unwanted = ClusterWatch(3, ask, lambda: StreamServers("a", ("a",), ()), lambda: False)
        unwanted.start()
        await asyncio.sleep(0)
        await unwanted.stop()
        return looks

    assert asyncio.run(story()) == 1


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({}, StreamServers("", (), ())),
        ({"leader": "a"}, StreamServers("a", ("a",), ())),
        (
            {
                "leader": "b",
                "replicas": [
                    {"name": "a", "current": True},
                    {"name": "c", "current": True, "offline": True},
                    {"name": "d", "current": False},
                ],
            },
            StreamServers("b", ("a", "b"), ("c", "d")),
        ),
    ],
)
def test_the_servers_of_a_stream(found: dict[str, Any], expected: StreamServers) -> None:
    assert stream_servers(found) == expected
