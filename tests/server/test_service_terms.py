"""Service sections of the settings override what a dialect would do."""

from dataclasses import replace

from dragoman.core.events import JobSubmitted
from dragoman.model.body import EMPTY, Body
from dragoman.model.names import JobId, PeerId, Principal, ServiceName
from dragoman.model.parent import Parent
from dragoman.model.terms import Terms
from dragoman.server.service_settings import ServiceSection
from dragoman.server.service_terms import ServiceTerms


def submission(service: str) -> JobSubmitted:
    return JobSubmitted(JobId("j"), PeerId("nfp/c"), ServiceName(service), EMPTY, key="k")


def test_a_service_without_a_section_keeps_its_terms() -> None:
    event = submission("other")
    assert ServiceTerms({"math": ServiceSection(patience=1)}).apply(event) is event


def test_a_section_replaces_only_the_terms_it_sets() -> None:
    section = ServiceSection(durability="relaxed", max_attempts=7, balance="round_robin")
    changed = ServiceTerms({"math": section}).apply(submission("math"))
    assert changed.terms == Terms(strict=False, max_attempts=7, balance="round_robin")
    assert (changed.job, changed.key) == ("j", "k")


def test_no_sections_are_false_so_that_the_loop_can_skip_them() -> None:
    assert not ServiceTerms({})
    assert ServiceTerms({"math": ServiceSection()})


def test_a_section_applies_to_every_version_without_its_own() -> None:
    policies = ServiceTerms(
        {"math": ServiceSection(patience=1), "math@2": ServiceSection(patience=2)}
    )
    assert policies.apply(submission("math@1")).terms.patience == 1
    assert policies.apply(submission("math@2")).terms.patience == 2


def test_calls_of_relaxed_services_do_not_wait_for_the_disk() -> None:
    terms = ServiceTerms({}, ["mmi"])
    assert terms
    changed = terms.apply(submission("mmi"))
    assert changed.terms == Terms(strict=False)
    assert (changed.job, changed.key) == ("j", "k")
    event = submission("math")
    assert terms.apply(event) is event


def test_a_client_has_the_weight_of_its_principal_or_of_its_name() -> None:
    terms = ServiceTerms({}, (), {"ops": 4, "importer": 2})
    assert terms
    event = submission("math")
    assert terms.apply(event) is event
    assert terms.apply(replace(event, principal=Principal("ops"))).terms.weight == 4
    named = replace(event, client=PeerId("nfp/importer"))
    assert terms.apply(named).terms.weight == 2
    assert terms.apply(replace(named, principal=Principal("ops"))).terms.weight == 4


def test_a_job_of_another_broker_gets_no_more_time_than_it_has_left() -> None:
    terms = ServiceTerms({"math": ServiceSection(timeout=60.0)})
    late = Terms(timeout=5.0, path=("west",))
    early = Terms(timeout=500.0, path=("west",))
    assert terms.apply(_submitted(late)).terms.timeout == 5.0
    assert terms.apply(_submitted(early)).terms.timeout == 60.0
    assert terms.apply(_submitted(Terms(timeout=5.0))).terms.timeout == 60.0


def _submitted(terms: Terms) -> JobSubmitted:
    return JobSubmitted(
        JobId("j1"), PeerId("mesh/west"), ServiceName("math"), Body("nfp", (b"",)), terms=terms
    )


def test_children_keep_their_parents_and_share_the_terms_of_their_service() -> None:
    terms = ServiceTerms({"math": ServiceSection(max_attempts=7)})
    for position in range(1, 101):
        parent = Parent("p", position)
        applied = terms.apply(replace(submission("math"), terms=Terms(parent=parent))).terms
        assert (applied.parent, applied.max_attempts) == (parent, 7)
    assert len(terms._made) == 1
