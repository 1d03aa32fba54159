"""A core with an HTTP side and nothing else, and words for what goes in and out of it."""

from typing import Any

from dragoman.core.broker import Broker
from dragoman.core.effects import Append, Effect
from dragoman.core.events import TimeAdvanced
from dragoman.dialects.base import Send, Subscribed
from dragoman.dialects.http import wire
from dragoman.dialects.http.body_codec import HttpBodyCodec
from dragoman.dialects.http.broker_side import HttpBrokerSide
from dragoman.dialects.http.settings import HttpSettings
from dragoman.model.content import Answer, Call

CODEC = HttpBodyCodec()
CLIENT = b"alice"
WORKER = b"worker:0a"


class House:
    """The pure part of a broker: what is said comes out as messages by address."""

    def __init__(self, settings: HttpSettings | None = None) -> None:
        self.side = HttpBrokerSide(settings=settings)
        self.broker = Broker()
        self.now = 1000.0
        self.records: list[Any] = []

    def say(
        self, address: bytes, message: wire.Message, parts: tuple[bytes, ...] = ()
    ) -> list[tuple[bytes, Any, tuple[bytes, ...]]]:
        """Say one message; return what is sent because of it, decoded."""
        out: list[tuple[bytes, Any, tuple[bytes, ...]]] = []
        for item in self.side.receive(address, wire.encode(message, parts), self.now):
            if isinstance(item, Send):
                out.append((item.address, *wire.decode(item.frames)))
            elif not isinstance(item, Subscribed):
                out += self._sent(self.broker.handle(item, self.now))
        self.broker.validate()
        self.side.validate()
        return out

    def _sent(self, effects: list[Effect]) -> list[tuple[bytes, Any, tuple[bytes, ...]]]:
        self.records += [effect.record for effect in effects if isinstance(effect, Append)]
        sends = [
            send
            for effect in effects
            if not isinstance(effect, Append)
            for send in self.side.render(effect, self.now)
        ]
        return [(send.address, *wire.decode(send.frames)) for send in sends]

    def pass_time(self, seconds: float) -> list[tuple[bytes, Any, tuple[bytes, ...]]]:
        """Let time pass."""
        self.now += seconds
        return self._sent(self.broker.handle(TimeAdvanced(), self.now))

    def join(self, address: bytes = WORKER, **more: Any) -> None:
        """Register a worker for the service `s`."""
        self.say(address, wire.Join("r", address.decode(), ("s",), **more))

    def submit(self, job: str = "j", **more: Any) -> list[tuple[bytes, Any, tuple[bytes, ...]]]:
        """Submit a job for the service `s`."""
        return self.say(CLIENT, wire.Submit("r", job, "s", "t", **more), call_parts("t", 1))


def call_parts(task: str, *args: Any) -> tuple[bytes, ...]:
    """Return a call's parts."""
    return CODEC.write_call(Call(task, args)).parts


def answer_parts(value: Any) -> tuple[bytes, ...]:
    """Return an answer's parts."""
    return CODEC.write_answer(Answer(value)).parts


def kinds(sent: list[tuple[bytes, Any, tuple[bytes, ...]]]) -> list[str]:
    """Name what was sent."""
    return [type(message).__name__ for _, message, _ in sent]
