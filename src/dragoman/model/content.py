"""The content of a request and a reply, independent of any dialect.

Used only at the edges: by the SDK, by the built-in services, and if a client and a worker speak
different dialects. Values are those of JSON, plus bytes.
"""

from collections.abc import Mapping
from typing import Any

from dragoman.model.fault import Fault, FaultCode
from dragoman.model.value import field, value


@value
class Call:
    """A request: a task with its arguments, or raw bytes."""

    task: str = ""
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, object] = field(default_factory=dict)
    #: The whole request as bytes, if it does not call a task.
    raw: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    #: How long the caller waits, in seconds.
    timeout: float | None = None


@value
class Answer:
    """A reply of one worker: a value, raw bytes, or a fault."""

    value: Any = None
    raw: bytes | None = None
    fault: Fault | None = None
    worker: str = ""
    #: The resources it concerns, if the job was for resources.
    resources: tuple[str, ...] = ()


class Unmappable(Exception):
    """The content cannot be expressed in a dialect. The message names both."""

    code = FaultCode.UNMAPPABLE


class ResultTooLarge(Unmappable):
    """A result exceeds the limit of its dialect. The message names size and limit."""

    code = FaultCode.TOO_LARGE
