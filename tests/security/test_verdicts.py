"""What the gate makes of an event."""

import pytest

from dragoman.core.events import BeatReceived, JobCancelled, Noted
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, PeerId, Principal
from dragoman.model.record import Kind
from dragoman.security.verdicts import refused, takeover_of, with_principal

PEER, ALICE = PeerId("nfp/w1"), Principal("alice")
NO = Fault(FaultCode.DENIED, "no")


def test_an_allowed_event_gets_its_principal_whatever_it_had_before() -> None:
    event = JobCancelled(JobId("j"), PEER, Principal("somebody else"))
    assert with_principal(event, ALICE).principal == "alice"


@pytest.mark.parametrize("event", [BeatReceived(PEER), Noted(Kind.REJECTED, PEER)])
def test_a_refusal_has_the_event_the_fault_and_the_principal(event: BeatReceived | Noted) -> None:
    found = refused(event, ALICE, NO)
    assert (found.event, found.fault, found.principal) == (event, NO, "alice")
    assert found.dismisses


def test_a_take_over_attempt_does_not_end_the_owners_session() -> None:
    theft = takeover_of(PEER, ALICE)
    assert theft.message == "take-over refused: the name w1 belongs to alice"
    found = refused(BeatReceived(PEER), Principal("mallory"), theft)
    assert not found.dismisses
