"""Groups and pipelines. A pipeline is a workflow of child jobs."""

from collections.abc import Iterable, Iterator
from typing import Any

from dragoman.compat.dramatiq.actors import Message, result_of
from dragoman.compat.hints import PATIENT
from dragoman.model.content import Call
from dragoman.sdk.blocking import Job
from dragoman.sdk.compositions import WORKFLOW_TASK, Chain


class MessagePipeline:
    """Messages one after the other; each gets the result of the one before."""

    def __init__(self, children: "Iterable[Message | MessagePipeline]") -> None:
        self.messages: list[Message] = []
        for child in children:
            self.messages += child.messages if isinstance(child, MessagePipeline) else [child]
        self._job: Job | None = None

    def __or__(self, other: "Message | MessagePipeline") -> "MessagePipeline":
        """Return a longer pipeline."""
        return MessagePipeline([self, other])

    def __len__(self) -> int:
        return len(self.messages)

    def run(self, *, delay: float | None = None) -> "MessagePipeline":
        """Start it; it goes on if this program ends."""
        first = self.messages[0]
        client = first.actor.broker.connected()
        plan = Chain(*(message.step() for message in self.messages)).members()
        call = Call(WORKFLOW_TASK, (plan,), timeout=PATIENT)
        options = {"delay": delay / 1000} if delay else {}
        self._job = client.order(first.queue_name, call, options=options)
        self._job.wait_until_acknowledged(30.0)
        return self

    def get_result(self, *, block: bool = False, timeout: int | None = None) -> Any:
        """Return the result of the last message; `timeout` in milliseconds."""
        first = self.messages[0]
        if self._job is None:
            raise RuntimeError("the pipeline does not run yet: call run()")
        seconds = (10.0 if timeout is None else timeout / 1000) if block else 0.2
        return result_of(first.actor.broker, self._job.id, first.queue_name, seconds, block)


class MessageGroup:
    """Messages side by side."""

    def __init__(self, children: Iterable[Message | MessagePipeline]) -> None:
        self.children = list(children)

    def __len__(self) -> int:
        return len(self.children)

    def run(self, *, delay: float | None = None) -> "MessageGroup":
        """Send all of them."""
        for child in self.children:
            if isinstance(child, Message):
                child.actor.enqueue(child, delay)
            else:
                child.run(delay=delay)
        return self

    def get_results(self, *, block: bool = False, timeout: int | None = None) -> Iterator[Any]:
        """Yield the results in order."""
        for child in self.children:
            yield child.get_result(block=block, timeout=timeout)

    def wait(self, *, timeout: int | None = None) -> None:
        """Wait for all of them."""
        for _ in self.get_results(block=True, timeout=timeout):
            pass

    @property
    def completed(self) -> bool:
        """Whether all have ended with a result."""
        return self.completed_count == len(self)

    @property
    def completed_count(self) -> int:
        """How many have ended with a result."""
        return sum(map(_has_result, self.children))


def _has_result(child: Message | MessagePipeline) -> bool:
    from dragoman.compat.dramatiq.errors import ResultError

    try:
        child.get_result()
    except ResultError:
        return False
    return True


pipeline = MessagePipeline
group = MessageGroup
