"""A broker in memory behind its gate: every dialect's real side, and a key for each address."""

from collections.abc import Iterable
from itertools import count
from typing import Any

from tests.kept_bodies import KeptBodies
from tests.security.keyring import NOW

from dragoman.core.broker import Broker
from dragoman.core.effects import Append, Effect
from dragoman.dialects.base import BrokerSide, Send, Subscribed
from dragoman.dialects.http.body_codec import HttpBodyCodec as HttpDress
from dragoman.dialects.http.broker_side import HttpBrokerSide as HttpBroker
from dragoman.dialects.registry import body_codecs
from dragoman.model.names import JobId, link_of
from dragoman.model.record import Record
from dragoman.security.gate import Gate, JobOwner
from dragoman.security.policy_text import read_policy
from dragoman.security.registry_data import RegistryData
from dragoman.server.guard import call_in, task_in
from dragoman.server.link_gate import LinkGate
from dragoman.testing.sim_dialects import SIM_DIALECTS


class AddressKeys:
    """What a gate needs of a transport: the key of each address."""

    def __init__(self) -> None:
        self.keys: dict[bytes, str] = {}

    def key_of(self, address: bytes) -> str:
        """Return the key that was proved from an address."""
        return self.keys.get(address, "")


class GatedBroker:
    """All broker sides with a core behind them."""

    def __init__(self, keys: RegistryData, policy: str = "") -> None:
        numbers = count(1)
        self.now = NOW
        self.broker = Broker()
        self.bells = AddressKeys()
        self.records: list[Record] = []
        self._bodies = KeptBodies()
        self.subscribed: list[Subscribed] = []
        codecs = {**body_codecs(), "http": HttpDress()}
        ids = lambda: f"id-{next(numbers)}"  # noqa: E731 - one word is enough for a counter
        sides: list[BrokerSide] = [HttpBroker(codecs=codecs)]
        for dialect in SIM_DIALECTS.values():
            sides += dialect.broker(codecs, ids)
        self.sides = {side.link: side for side in sides}
        self.gate = Gate(
            keys,
            read_policy(policy),
            owner_of=self._owner_of,
            task_in=lambda body: task_in(codecs, body),
            call_in=lambda body: call_in(codecs, body),
        )
        transport: Any = self.bells
        self.points = {s.link: LinkGate(self.gate, s, transport) for s in sides}

    def _owner_of(self, job: JobId) -> JobOwner | None:
        found = self.broker.state.store.find(job)
        return JobOwner(found.principal, found.service) if found else None

    def say(self, link: str, address: bytes, frames: Iterable[bytes], key: str = "") -> list[Send]:
        """Receive a message from a peer with a key; return all messages the broker sends."""
        self.bells.keys[address] = key
        sends: list[Send] = []
        for item in self.points[link].receive(address, list(frames), self.now):
            if isinstance(item, Send):
                sends.append(item)
            elif isinstance(item, Subscribed):
                self.subscribed.append(item)
            else:
                sends += self._carry_out(self.broker.handle(item, self.now))
        return sends

    def _carry_out(self, effects: list[Effect]) -> list[Send]:
        sends: list[Send] = []
        for effect in effects:
            if isinstance(effect, Append):
                self._bodies.keep(effect)
                self.records.append(effect.record)
                self.gate.meter.observe(effect.record)
                continue
            effect_: Any = self._bodies.fill(effect)
            peer = next(
                getattr(effect_, name)
                for name in ("client", "worker", "peer")
                if hasattr(effect_, name) and not (name == "client" and hasattr(effect_, "attempt"))
            )
            sends += self.sides[link_of(peer)].render(effect_, self.now)
        return sends

    def kinds(self) -> list[str]:
        """Return what was put on record since the last time, and forget it."""
        found, self.records = [str(r.kind) for r in self.records], []
        return found
