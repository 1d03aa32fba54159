"""A message whose last frame was beyond the transport's limit: its job ends with a fault.

The side has read the message without that frame. So its events say which job it was about, and
their content is worth nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from dragoman.core.events import (
    Event,
    EventDenied,
    InputReceived,
    JobForwarded,
    JobSubmitted,
    ReplyKind,
    ReplyReceived,
    WorkerJoined,
)
from dragoman.dialects.base import Send, Subscribed
from dragoman.model.body import EMPTY
from dragoman.model.fault import Fault, FaultCode
from dragoman.transports.base import OversizedFrame

_REFUSED: Final = (JobSubmitted, InputReceived, WorkerJoined)


def refuse_oversized(
    received: Iterable[Event | Send | Subscribed], frame: OversizedFrame
) -> Iterator[Event | Send | Subscribed]:
    """Replace what a message would do with its oversized frame; keep the rest."""
    bytes_and_limit = f"{frame.size} bytes; the limit is {frame.limit}"
    for item in received:
        if isinstance(item, ReplyReceived):
            fault = Fault(FaultCode.TOO_LARGE, f"the result has {bytes_and_limit}")
            yield replace(item, kind=ReplyKind.FINAL, body=EMPTY, fault=fault)
        elif isinstance(item, JobForwarded):
            fault = Fault(FaultCode.TOO_LARGE, f"the forwarded request has {bytes_and_limit}")
            yield ReplyReceived(item.worker, item.job, ReplyKind.FINAL, EMPTY, fault, item.attempt)
        elif isinstance(item, _REFUSED):
            fault = Fault(FaultCode.TOO_LARGE, f"the message has {bytes_and_limit}")
            yield EventDenied(item, fault)
        else:
            yield item
