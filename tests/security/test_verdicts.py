"""What the gate makes of an event."""

import pytest

from dragoman.core.events import BeatReceived, JobCancelled, Noted
from dragoman.model.fault import Fault, FaultCode
from dragoman.model.names import JobId, PeerId, Principal
from dragoman.model.record import Kind
from dragoman.security.verdicts import refused, takeover_of, with_principal

PEER, ALICE = PeerId("nfp/w1"), Principal("alice")
NO = Fault(FaultCode.DENIED, "no")


def test_what_is_let_through_has_its_principal_whatever_it_said_before() -> None:
    event = JobCancelled(JobId("j"), PEER, Principal("somebody else"))
    assert with_principal(event, ALICE).principal == "alice"


@pytest.mark.parametrize("event", [BeatReceived(PEER), Noted(Kind.REJECTED, PEER)])
def test_a_refusal_has_the_event_the_fault_and_who_it_was(event: BeatReceived | Noted) -> None:
    found = refused(event, ALICE, NO)
    assert (found.event, found.fault, found.principal) == (event, NO, "alice")
    assert found.dismisses


def test_who_speaks_in_anothers_name_ends_nobodys_session() -> None:
    theft = takeover_of(PEER, ALICE)
    assert theft.message == "take-over refused: the name w1 belongs to alice"
    found = refused(BeatReceived(PEER), Principal("mallory"), theft)
    assert not found.dismisses
