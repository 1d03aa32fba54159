"""What a request and a reply mean, once undressed from their dialect.

Used only at the edges: by the SDK, the built-in services, and when a client's and a worker's
dialect differ. Values are those of JSON plus bytes.
"""

from collections.abc import Mapping
from typing import Any

from dragoman.model.fault import Fault
from dragoman.model.value import field, value


@value
class Call:
    """A request: a task with its arguments, or raw bytes."""

    task: str = ""
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    #: The whole request as bytes, when it is not a call of a task.
    raw: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    #: How long the caller is willing to wait, in seconds.
    timeout: float | None = None


@value
class Answer:
    """A reply of one worker: a value, raw bytes, or a fault."""

    value: Any = None
    raw: bytes | None = None
    fault: Fault | None = None
    worker: str = ""
    #: The resources it is about, where the job was for resources.
    resources: tuple[str, ...] = ()


class Unmappable(Exception):
    """This content has no form in that dialect. The message names content and dialect."""
