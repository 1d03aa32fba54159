"""What every worker of ours answers beside its own tasks, on every dialect."""

import threading
from typing import Any

import pytest

from dragoman import Client, JobFailed, Worker
from dragoman.dialects.peer_sides import Assigned
from dragoman.model.content import Call
from dragoman.model.names import JobId
from dragoman.sdk.manage import Management
from dragoman.sdk.url import Endpoint
from dragoman.testing.harness import LocalBroker

MMI = "mmi.service.worker"


class Fake:
    endpoint = Endpoint("nfp", "tcp://h:1")
    services: tuple[str, ...] = ("s",)

    def isolations(self) -> dict[str, str]:
        return {"who": "process"}

    def task_process_ids(self) -> list[int]:
        return [7]

    name, concurrency, succeeded, failed = "w", 2, 3, 1

    def __init__(self) -> None:
        self.done: list[str] = []

    def running(self) -> list[str]:
        return ["c1", "c1", "c2"]

    def longest_running(self) -> float:
        return 7.25

    def silent_for(self) -> float:
        return 0.5

    def describe_tasks(self) -> list[dict[str, Any]]:
        return [{"task": "add"}]

    def task_names(self) -> list[str]:
        return ["add"]

    def go_down(self) -> None:
        self.done.append("down")

    def join_again(self) -> None:
        self.done.append("again")


def run(management: Management, task: str, **kwargs: Any) -> Any:
    answer = management.run(Call(task, (), kwargs))
    assert answer.fault is None, answer.fault
    return answer.value


def test_a_worker_reports_its_state_and_obeys_commands() -> None:
    fake = Fake()
    management = Management(fake)
    assert run(management, "mmi.show_broker")["url"] == "nfp://h:1"
    (row,) = run(management, "show_workers")
    assert (row["tasks"], row["running"], row["succeeded"]) == (["add"], 3, 3)
    assert run(management, "MMI.SHOW_CLIENTS") == [
        {"client": "c1", "jobs": 2},
        {"client": "c2", "jobs": 1},
    ]
    for task in ("restart", "disconnect", "shutdown"):
        run(management, f"mmi.{task}")
    assert fake.done == ["again", "again", "down"]
    assert management.run(Call("mmi.fly")).fault is not None
    assert management.run(Call("mmi.own", (), {"x": 1})).fault is not None


def test_which_calls_are_meant_for_management() -> None:
    management = Management(Fake())

    def meant(task: str, service: str = "s", own: bool = False) -> bool:
        return management.is_management_call(Assigned("t", JobId("j"), Call(task), service), own)

    assert meant("mmi.show_workers", own=True)
    assert meant("anything", "MMI.SERVICE.WORKER", own=True)
    assert meant("restart")
    assert not meant("restart", own=True)
    assert not meant("add")


def test_gained_and_lost_resources_are_reported_and_an_old_list_is_ignored() -> None:
    management = Management(Fake())
    reported: list[Any] = []
    management.on_resources = lambda gained, lost: reported.append((gained, lost))
    run(management, "mmi.own", service="s", resources=["a", "b"], seq=5)
    run(management, "mmi.own", service="s", resources=["b", "c"], seq=9)
    run(management, "mmi.own", service="s", resources=["a"], seq=7)
    run(management, "mmi.own", service="s", resources=["b", "c"], seq=11)
    assert reported == [(["a", "b"], []), (["c"], ["a"])]
    assert management.owned == ["b", "c"]


def make(url: str, name: str) -> Worker:
    worker = Worker(url, service="net", name=name, own_process_beats=False)
    worker.task(lambda: name, name="who")
    return worker


@pytest.mark.process
@pytest.mark.parametrize("dialect", ["nfp", "dcp", "zss", "memo"])
def test_workers_of_every_dialect_answer_by_target(dialect: str) -> None:
    with LocalBroker("nfp", "dcp", "zss", "zss_backend", "memo") as broker:
        url = broker.url(dialect, for_workers=True)
        with make(url, "w1"), Client(broker.url("nfp")) as client:
            client.call("net", "who", timeout=20)
            rows = client.call("mmi.service.broker", "list_workers", timeout=10)
            found = client.call("net", "mmi.show_broker", target=rows[0]["name"], timeout=10)
            assert found["dialect"] == dialect


@pytest.mark.process
def test_the_broker_passes_management_calls_on_to_workers() -> None:
    with (
        LocalBroker() as broker,
        Client(broker.url("nfp")) as client,
        make(broker.url("nfp"), "w1"),
        make(broker.url("nfp"), "w2") as second,
    ):
        client.call("net", "who", target="w1,w2", timeout=20)
        assert set(client.call(MMI, "show_workers", timeout=10)) == {"w1", "w2"}
        found = client.call(MMI, "show_broker", worker="w1", timeout=10)
        assert found["w1"]["url"] == broker.url("nfp")
        assert client.call(MMI, "show_workers", target="w1", timeout=10)[0]["name"] == "w1"
        assert client.call(MMI, "restart", worker="w1", timeout=10)["w1"]["status"]
        assert client.call("net", "who", target="w1", timeout=20) == "w1"
        assert client.call(MMI, "shutdown", worker="w2", timeout=10)["w2"]["status"]
        second._thread.join(10)
        assert not second._thread.is_alive
        with pytest.raises(JobFailed, match="nobody"):
            client.call(MMI, "restart", worker="nobody", timeout=10)


@pytest.mark.process
def test_declared_resources_are_distributed_and_workers_notified(tmp_path: Any) -> None:
    names = [f"r{n}" for n in range(12)]
    (tmp_path / "inventory.toml").write_text(f"[resources.net]\nnames = {names}\n")
    reported: dict[str, set[str]] = {"w1": set(), "w2": set()}
    news = threading.Condition()

    def hear(worker: Worker) -> Worker:
        @worker.on_resources
        def changed(gained: list[str], lost: list[str]) -> None:
            with news:
                reported[worker.name] = (reported[worker.name] | set(gained)) - set(lost)
                news.notify_all()

        return worker

    def until_all_know() -> None:
        with news:
            assert news.wait_for(
                lambda: sorted([*reported["w1"], *reported["w2"]]) == sorted(names), 20
            )

    with (
        LocalBroker(inventory_path=tmp_path) as broker,
        Client(broker.url("nfp")) as client,
        hear(make(broker.url("nfp"), "w1")),
    ):
        until_all_know()
        with hear(make(broker.url("nfp"), "w2")):
            with news:
                assert news.wait_for(lambda: reported["w2"], 20)
            until_all_know()
            for name in names:
                (who,) = client.call("net", "who", target=f"resource:{name}", timeout=20)
                assert name in reported[who]
            both = client.call("net", "who", target="resource:r*", timeout=20)
            assert set(both) == {"w1", "w2"}
        reported["w2"].clear()
        until_all_know()
        shown = client.call("mmi.service.broker", "show_resources", "net", timeout=10)
        assert {row["resource"] for row in shown if row["workers"] == ["w1"]} == set(names)
