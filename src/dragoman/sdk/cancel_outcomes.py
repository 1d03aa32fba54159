"""The outcome of a cancel, in the same words whatever the dialect.

A dialect answers a cancel with the job's end, or with its state and a text of the broker.
"""

from typing import Final

from dragoman.dialects.peer_sides import Finished, StatusNotice
from dragoman.model.fault import FaultCode
from dragoman.model.job import FINAL, JobState

#: The job never started, or its worker confirmed that it stopped.
CANCELLED: Final = "cancelled"
UNCONFIRMED: Final = "cancelled, not confirmed: its worker may still run it"
FINISHED: Final = "already finished"
UNKNOWN: Final = "unknown job"

_ENDS: Final = {
    FaultCode.CANCELLED: CANCELLED,
    FaultCode.CANCEL_UNCONFIRMED: UNCONFIRMED,
    FaultCode.UNKNOWN_JOB: UNKNOWN,
}
#: Parts of the broker's texts for the fault `cancel_unconfirmed`; NFP has a word for it.
_UNCONFIRMED_TEXTS: Final = ("cancel_not_confirmed", "may still run", "before it confirmed")


def cancel_outcome(notice: Finished | StatusNotice) -> str:
    """Return the outcome that a notice reports."""
    if isinstance(notice, Finished):
        return _ENDS.get(notice.fault.code, FINISHED) if notice.fault else FINISHED
    if notice.state == JobState.CANCELLED:
        detail = notice.detail.lower()
        if notice.code == FaultCode.CANCEL_UNCONFIRMED:
            return UNCONFIRMED
        return UNCONFIRMED if any(text in detail for text in _UNCONFIRMED_TEXTS) else CANCELLED
    if notice.state in FINAL:
        return FINISHED
    return UNKNOWN if notice.state == "unknown" else notice.detail or notice.state
