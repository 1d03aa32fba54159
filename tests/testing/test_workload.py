"""The workload covers every policy of the core."""

from random import Random

from dragoman.model.capacity import NOTHING
from dragoman.model.names import JobId, PeerId, WorkerName
from dragoman.model.target import AllWorkers, AnyWorker, Labelled, Named, OnResource
from dragoman.model.terms import BALANCES
from dragoman.testing.workload import LATER, SERVICES, draw_job, draw_offer, plentiful_offer

NAMES = (WorkerName("w1"), WorkerName("w2"))


def test_every_target_and_every_term_is_drawn_sooner_or_later() -> None:
    random = Random(1)
    jobs = [draw_job(random, JobId(f"j{n}"), PeerId("local/c"), NAMES) for n in range(2000)]
    assert {type(j.target) for j in jobs} == {AnyWorker, AllWorkers, Named, Labelled, OnResource}
    assert {j.service for j in jobs} == {*SERVICES, LATER, "all"}
    assert {j.terms.balance for j in jobs} == set(BALANCES)
    assert {j.terms.patience for j in jobs} >= {0.0, None}
    for name in ("queue_timeout", "run_timeout", "timeout"):
        assert len({getattr(j.terms, name) for j in jobs}) > 1
    assert any(j.terms.memoize for j in jobs)
    assert any(j.key for j in jobs)
    assert any(j.terms.needs is not NOTHING for j in jobs)
    assert {j.terms.strict for j in jobs} == {True, False}


def test_every_kind_of_credit_is_offered_sooner_or_later() -> None:
    random = Random(1)
    offers = [draw_offer(random, NAMES[0]) for _ in range(200)]
    kinds = {(o.credit is None, o.credit_returns) for o in offers}
    assert len(kinds) == 4
    assert {o.beat_every is None for o in offers} == {True, False}


def test_the_workers_that_heal_the_world_offer_everything() -> None:
    offer = plentiful_offer(WorkerName("w1"))
    assert set(offer.services) == {*SERVICES, LATER}
    assert offer.credit is None
    assert offer.resources
