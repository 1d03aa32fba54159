"""The answers of the management service, checked by NorFab's own strict models."""

import json
from pathlib import Path
from typing import Any

from norfab.core.monitoring import BrokerMonitoringStats

from dragoman.core import view
from dragoman.dialects.facts import BrokerFacts
from dragoman.dialects.nfp import management
from dragoman.dialects.nfp.dialect import DIALECT
from dragoman.dialects.nfp.settings import NfpSettings
from dragoman.model.names import PeerId, ServiceName, WorkerName

VECTORS: dict[str, list[str]] = {
    v["name"]: v["frames"]
    for v in json.loads(
        (Path(__file__).parent.parent / "vectors/nfp/norfab-0.25.0.json").read_text()
    )
}


def worker(name: str = "w1", service: str = "math", status: str = "alive") -> view.WorkerRow:
    return view.WorkerRow(
        WorkerName(name),
        PeerId(f"nfp/{name}"),
        "nfp",
        (ServiceName(service),),
        status,
        holding=1,
        credit=99,
        beats=12,
        lease=15.0,
        silent_for=0.14,
        alive_for=30.9,
        principal="anonymous",
    )


def facts(*workers: view.WorkerRow) -> BrokerFacts:
    return BrokerFacts(
        now=1000.5,
        workers=workers,
        services=(view.ServiceRow(ServiceName("math"), 1, 1, 2, 100, 3),),
        clients=(view.ClientRow(PeerId("nfp/c1"), 4, 900.5, 999.5),),
        beats_sent={"w1": 11},
        endpoint="tcp://127.0.0.1:5555",
        versions={"dragoman": "0.1"},
    )


def answer(known: BrokerFacts, task: str, kwargs: dict[str, Any]) -> object:
    return DIALECT.management_tasks(NfpSettings())[task](known, kwargs)


def captured(name: str) -> Any:
    return json.loads(bytes.fromhex(VECTORS[name][-1]))


def test_show_workers_has_norfabs_text_rows() -> None:
    assert answer(facts(worker()), "show_workers", {}) == [
        {
            "name": "w1",
            "service": "math",
            "status": "alive",
            "holdtime": "14.9",
            "keepalives tx/rx": "11 / 12",
            "alive (s)": "30",
        }
    ]
    theirs = captured("mmi-show_workers/03 MMI 200")
    ours = management.show_workers(facts(worker()), NfpSettings(), {})
    assert list(ours[0]) == list(theirs[0])


def test_show_workers_is_filtered_and_no_workers_are_one_empty_row() -> None:
    known = facts(worker(), worker("w2", "files", "away"))

    def names(**kwargs: str) -> list[str]:
        return [row["name"] for row in management.show_workers(known, NfpSettings(), kwargs)]

    assert names(service="files") == names(status="dead") == ["w2"]
    assert names(service="all") == ["w1", "w2"]
    theirs = captured("mmi-show_workers-filter/02 RESPONSE 200")
    assert management.show_workers(known, NfpSettings(), {"service": "nosuch"}) == theirs


def test_get_stats_has_the_captured_shape_and_passes_norfabs_strict_model() -> None:
    theirs = captured("mmi-get_stats/02 RESPONSE 200")
    ours = management.get_stats(facts(worker(), worker("w2", status="away")), NfpSettings(), {})
    assert list(ours) == list(theirs)
    assert list(ours["process"]) == list(theirs["process"])
    assert list(ours["messaging"]) == list(theirs["messaging"])
    assert list(ours["workers"][0]) == list(theirs["workers"][0])
    BrokerMonitoringStats.model_validate_json(json.dumps(ours))


def test_the_texts_functions_are_there() -> None:
    known = facts(worker())
    assert answer(known, "show_services", {}) == [
        {"name": "math", "workers": 1, "queued": 2, "running": 3}
    ]
    assert answer(known, "show_clients", {}) == [
        {"name": "nfp/c1", "jobs": 4, "first seen (s)": 100.0, "last seen (s)": 1.0}
    ]
    assert management.show_broker(known, NfpSettings(), {})["workers count"] == 1
    assert management.get_status(known, NfpSettings(), {})["status"] == "active"
    versions: Any = answer(known, "show_broker_version", {})
    assert versions["dragoman"] == "0.1"
    assert {"norfab", "psutil", "tornado"} <= set(versions)


def test_a_restart_is_not_a_task_with_norfabs_form() -> None:
    assert "restart" not in DIALECT.management_tasks(NfpSettings())
