"""What a broker offers its neighbours, from its registry."""

from typing import Any

from dragoman.core.broker import Broker
from dragoman.core.events import (
    DrainRequested,
    JobSubmitted,
    ServicePaused,
    WorkerDrained,
    WorkerJoined,
)
from dragoman.dialects.mesh.wire import Offer
from dragoman.model.body import Body
from dragoman.model.names import JobId, PeerId, ServiceName, WorkerName
from dragoman.server.mesh_view import RegistryView


class Site:
    def __init__(self) -> None:
        self.broker = Broker()
        self.view = RegistryView("west", lambda: self.broker.state)

    def worker(self, name: str, *services: str, **said: Any) -> None:
        offered = tuple(map(ServiceName, services))
        joined = WorkerJoined(PeerId(f"local/{name}"), WorkerName(name), offered, **said)
        self.broker.handle(joined, 1.0)

    def offers(self, to: str = "east") -> tuple[Offer, ...]:
        return self.view.offers(to, lambda service: True)


def test_a_service_is_offered_with_the_slots_of_all_its_workers() -> None:
    site = Site()
    site.worker("w1", "math", "text", credit=2, credit_returns=True)
    site.worker("w2", "math", credit=3)
    assert site.offers() == (Offer("math", 5, ["west"]), Offer("text", 2, ["west"]))


def test_a_service_with_a_line_break_in_its_name_is_not_offered() -> None:
    site = Site()
    site.worker("w1", "two\nlines")
    assert site.offers() == ()


def test_spent_credit_counts_as_a_slot() -> None:
    site = Site()
    site.worker("w1", "math", credit=1)
    job = JobSubmitted(JobId("j1"), PeerId("local/c"), ServiceName("math"), Body("nfp", (b"",)))
    site.broker.handle(job, 2.0)
    assert site.offers() == (Offer("math", 1, ["west"]),)


def test_built_in_paused_and_draining_ones_are_not_offered() -> None:
    site = Site()
    site.worker("broker", "mmi", is_builtin=True)
    site.worker("w1", "math")
    site.worker("w2", "text")
    site.broker.handle(ServicePaused(ServiceName("text"), True), 2.0)
    assert [offer.service for offer in site.offers()] == ["math"]
    assert site.view.is_own("mmi")
    assert not site.view.is_own("math")
    site.broker.handle(WorkerDrained(WorkerName("w1"), True), 2.0)
    assert site.offers() == ()
    site.broker.handle(WorkerDrained(WorkerName("w1"), False), 2.0)
    assert [offer.service for offer in site.offers()] == ["math"]
    site.broker.handle(DrainRequested(), 3.0)
    assert site.offers() == ()


def test_the_shortest_way_is_offered_on_but_not_to_a_broker_on_it() -> None:
    site = Site()
    site.worker("north/math", "math", credit=7, credit_returns=True, route=("north", "south"))
    site.worker("south/math", "math", credit=4, credit_returns=True, route=("south",))
    assert site.offers("east") == (Offer("math", 4, ["west", "south"]),)
    assert site.offers("south") == ()


def test_open_jobs_of_a_client_and_why_they_are_open() -> None:
    site = Site()
    client = PeerId("mesh/east")
    job = JobSubmitted(JobId("j1"), client, ServiceName("math"), Body("nfp", (b"",)))
    site.broker.handle(job, 2.0)
    assert site.view.open_jobs(client) == ["j1"]
    assert site.view.open_jobs(PeerId("mesh/north")) == []
    assert site.view.why("j1")[0] == "no_service"
