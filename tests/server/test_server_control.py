"""What people may have done to a running broker."""

from tests.server.stage import Stage

from dragoman.core.events import WorkerJoined
from dragoman.model.names import PeerId, ServiceName, WorkerName
from dragoman.server.control import BrokerControl


def joined(name: str, *, house: bool = False) -> WorkerJoined:
    return WorkerJoined(
        PeerId(f"nfp/{name}"), WorkerName(name), (ServiceName("a"),), is_builtin=house
    )


def test_going_down_is_passed_on() -> None:
    asked: list[tuple[float | None, bool]] = []
    control = BrokerControl(Stage().loop, lambda at_most, again: asked.append((at_most, again)))
    control.restart(None)
    control.shutdown(3.0)
    assert asked == [(None, True), (3.0, False)]


def test_workers_are_let_go_by_name_or_all_but_the_house() -> None:
    stage = Stage()
    for event in (joined("w2"), joined("w1"), joined("h", house=True)):
        stage.broker.handle(event, 1.0)
    control = BrokerControl(stage.loop, lambda at_most, again: None)
    assert control.disconnect("nobody", False) == []
    assert control.disconnect("w1", False) == ["w1"]
    assert control.disconnect(None, True) == ["w1", "w2"]
    stage.loop.turn()
    assert [w.name for w in stage.broker.state.registry.workers.values()] == ["h"]
