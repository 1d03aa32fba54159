"""The reserved service `all` means every worker that is not built in."""

import pytest

from dragoman.core.broker import Broker
from dragoman.core.effects import SendWork
from dragoman.core.events import JobSubmitted, WorkerJoined
from dragoman.model.body import Body
from dragoman.model.names import EVERY_SERVICE, JobId, PeerId, ServiceName, WorkerName
from dragoman.model.target import ALL, ANY, Target


def joined(name: str, service: str, *, is_builtin: bool = False) -> WorkerJoined:
    return WorkerJoined(
        PeerId(f"nfp/{name}"),
        WorkerName(name),
        (ServiceName(service),),
        is_builtin=is_builtin,
    )


@pytest.mark.parametrize("target", [ALL, ANY])
def test_the_service_all_does_not_mean_the_brokers_own_services(target: Target) -> None:
    broker = Broker()
    broker.handle(joined("files", "files", is_builtin=True), 1.0)
    broker.handle(joined("w1", "math"), 1.0)
    job = JobSubmitted(JobId("j"), PeerId("nfp/c"), EVERY_SERVICE, Body("nfp", (b"{}",)), target)
    effects = broker.handle(job, 2.0)
    assert [e.worker for e in effects if isinstance(e, SendWork)] == ["nfp/w1"]


def test_the_brokers_own_services_are_reached_by_their_name() -> None:
    broker = Broker()
    broker.handle(joined("files", "files", is_builtin=True), 1.0)
    service = ServiceName("files")
    job = JobSubmitted(JobId("j"), PeerId("nfp/c"), service, Body("nfp", (b"{}",)))
    effects = broker.handle(job, 2.0)
    assert [e.worker for e in effects if isinstance(e, SendWork)] == ["nfp/files"]
