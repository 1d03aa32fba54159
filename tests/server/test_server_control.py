"""What people may have done to a running broker."""

from tests.server.memory_server import MemoryServer

from dragoman.core.events import WorkerJoined
from dragoman.model.names import PeerId, ServiceName, WorkerName
from dragoman.server.control import BrokerControl


def joined(name: str, *, builtin: bool = False) -> WorkerJoined:
    return WorkerJoined(
        PeerId(f"nfp/{name}"), WorkerName(name), (ServiceName("a"),), is_builtin=builtin
    )


async def no_sealing() -> int:
    return 0


def test_restart_and_shutdown_are_passed_on() -> None:
    asked: list[tuple[float | None, bool]] = []
    control = BrokerControl(
        MemoryServer().loop, lambda at_most, again: asked.append((at_most, again)), no_sealing
    )
    control.restart(None)
    control.shutdown(3.0)
    assert asked == [(None, True), (3.0, False)]


def test_workers_are_disconnected_by_name_or_all_but_the_built_in_ones() -> None:
    server = MemoryServer()
    for event in (joined("w2"), joined("w1"), joined("h", builtin=True)):
        server.broker.handle(event, 1.0)
    control = BrokerControl(server.loop, lambda at_most, again: None, no_sealing)
    assert control.disconnect("nobody", False) == []
    assert control.disconnect("w1", False) == ["w1"]
    assert control.disconnect(None, True) == ["w1", "w2"]
    server.loop.engine.turn(server.loop.clock.now())
    assert [w.name for w in server.broker.state.registry.workers.values()] == ["h"]
