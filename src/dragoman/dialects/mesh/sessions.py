"""The sessions with other brokers: who begins one, how it ends, and what each tells the other.

The broker that connects begins the session. A message of another session is answered with `Strange`
and has no effect: it may have waited in an old connection while its job went elsewhere.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from dragoman.core.effects import LinkPast
from dragoman.core.events import Event
from dragoman.dialects.base import Address, Frames, MalformedMessage, Send
from dragoman.dialects.mesh import wire
from dragoman.dialects.mesh.neighbour import Neighbour
from dragoman.dialects.mesh.settings import (
    BEAT_EVERY,
    HOLD,
    MOST_NEIGHBOURS,
    NAME,
    POLL_EVERY,
    NeighbourTerms,
)
from dragoman.model.body import EMPTY, Body
from dragoman.model.names import JobId, PeerId, name_of
from dragoman.model.value import field, value

Received = list[Event | Send]


class MeshView(Protocol):
    """What the side reads of its own broker."""

    def offers(self, to: str, gives: Callable[[str], bool]) -> tuple[wire.Offer, ...]:
        """Return the services that a neighbour may use."""
        ...

    def open_jobs(self, client: PeerId) -> list[JobId]:
        """Return the open jobs of a client."""
        ...

    def is_own(self, service: str) -> bool:
        """Tell whether the broker itself offers a service: such are never shared."""
        ...

    def why(self, job: str) -> tuple[str, str]:
        """Return why a job is in its state: the reason, and an explanation."""
        ...


@value
class MeshConfig:
    """Who this broker is, whom it connects to, and on which terms."""

    name: str
    #: The terms of each address that it connects to, and of brokers by name.
    dials: Mapping[Address, NeighbourTerms] = field(default_factory=dict)
    by_name: Mapping[str, NeighbourTerms] = field(default_factory=dict)
    #: The terms of other brokers.
    others: NeighbourTerms = NeighbourTerms()


class _Dial:
    """One address that this broker connects to."""

    def __init__(self, terms: NeighbourTerms) -> None:
        self.terms = terms
        self.session = ""
        self.hello_at = 0.0
        #: The broker that answered last.
        self.broker = ""


class MeshSessions:
    """The sessions of one broker with its neighbours."""

    link = NAME

    def __init__(self, config: MeshConfig, view: MeshView, new_session: Callable[[], str]) -> None:
        self.config = config
        self.me = config.name
        self._view = view
        self._new_session = new_session
        self.neighbours: dict[str, Neighbour] = {}
        self._dials = {address: _Dial(terms) for address, terms in config.dials.items()}
        self._poll_at = 0.0
        self._has_news = False
        #: Called with the answer of another broker: its name, the job, reason and words.
        self.told: Callable[[str, str, str, str], None] = lambda broker, job, reason, words: None

    @staticmethod
    def speaks_as(address: Address, frames: Frames) -> str:
        """Return the name that a message is sent under."""
        return wire.sender_of(frames)

    def _neighbour(self, name: str, terms: NeighbourTerms | None = None) -> Neighbour:
        found = self.neighbours.get(name)
        if found is None:
            own = terms or self.config.by_name.get(name, self.config.others)
            found = self.neighbours[name] = Neighbour(name, own)
        elif terms is not None:
            found.terms = terms
        return found

    def restore(self, past: LinkPast, load_body: Callable[[int], Body | None], now: float) -> None:
        """Remember which neighbours have jobs that an earlier process sent them."""
        for found in past.work:
            name = name_of(found.work.worker).partition("/")[0]
            work = found.work
            self._neighbour(name).sent(work.job, work.worker, work.attempt, now)

    # --- sessions -----------------------------------------------------------------------------

    def receive(self, address: Address, frames: Frames, now: float) -> Received:
        """Decode one message of another broker; one without frames says that it is cut off."""
        if not frames:
            return self._connection_lost(address)
        got = wire.decode(frames)
        if got.sender == self.me:
            raise MalformedMessage(f"another broker is named {self.me}, too; names must differ")
        if isinstance(got.message, wire.Hello):
            return self._hello(address, got, now)
        if isinstance(got.message, wire.Welcome):
            return self._welcome(address, got, now)
        found = self.neighbours.get(got.sender)
        if isinstance(got.message, wire.Strange):
            return self._strange(address, got)
        if found is None or found.session != got.session or found.address != address:
            return [Send(address, wire.encode(self.me, got.session, wire.Strange()))]
        found.heard_at = now
        return self._handle(found, got, now)

    def _handle(self, source: Neighbour, got: wire.MeshEnvelope, now: float) -> Received:
        """Handle a message of the present session."""
        raise NotImplementedError

    def _hello(self, address: Address, got: wire.MeshEnvelope, now: float) -> Received:
        if got.sender not in self.neighbours and len(self.neighbours) >= MOST_NEIGHBOURS:
            raise MalformedMessage(f"{MOST_NEIGHBOURS} brokers are linked; {got.sender} is refused")
        found = self._neighbour(got.sender)
        if found.session and found.is_dialled and self.me < got.sender:
            # Each connected to the other. Both keep the session of the lesser name.
            return [Send(address, wire.encode(self.me, got.session, wire.Strange()))]
        found.begin(address, got.session, now, is_dialled=False)
        return [self._to(found, wire.Welcome()), *self._introduction(found, now)]

    def _welcome(self, address: Address, got: wire.MeshEnvelope, now: float) -> Received:
        dial = self._dials.get(address)
        if dial is None or dial.session != got.session:
            return []
        dial.broker = got.sender
        found = self._neighbour(got.sender, dial.terms)
        is_theirs = found.session and not found.is_dialled and got.sender < self.me
        if is_theirs or found.session == got.session:
            return []
        found.begin(address, got.session, now, is_dialled=True)
        return list(self._introduction(found, now))

    def _strange(self, address: Address, got: wire.MeshEnvelope) -> Received:
        """Begin a new session: the other broker does not have this one."""
        found, dial = self.neighbours.get(got.sender), self._dials.get(address)
        if dial is not None and dial.session == got.session:
            dial.session, dial.broker = "", got.sender
        if found is not None and found.session == got.session:
            found.session = ""
            if dial is not None:
                dial.hello_at = 0.0
        return []

    def _connection_lost(self, address: Address) -> Received:
        """Begin a new session: messages of the old one may be lost."""
        for found in self.neighbours.values():
            if found.address == address:
                found.session = ""
        if (dial := self._dials.get(address)) is not None:
            dial.session, dial.hello_at = "", 0.0
        return []

    def _introduction(self, neighbour: Neighbour, now: float) -> list[Send]:
        """Tell a neighbour what is offered to it, and which of its jobs are open here."""
        neighbour.beat_at = now + BEAT_EVERY
        holds = wire.Holds([*map(str, self._view.open_jobs(neighbour.client))])
        return [*self._offers(neighbour), self._to(neighbour, holds)]

    def _offers(self, neighbour: Neighbour) -> list[Send]:
        """Tell a neighbour what is offered to it, if that has changed."""
        offers = self._view.offers(neighbour.name, neighbour.terms.gives)
        if offers == neighbour.told:
            return []
        neighbour.told = offers
        return [self._to(neighbour, wire.Offers(list(offers)))]

    def _to(self, to: Neighbour, message: wire.MeshMessage, body: Body = EMPTY) -> Send:
        # Without a session there is no address, so the transport reports the neighbour as gone.
        address = to.address if to.session else b""
        return Send(address, wire.encode(self.me, to.session, message, body))

    # --- timers -------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Have the offers compared soon: workers have joined or left."""
        self._has_news = True

    def next_deadline(self) -> float | None:
        """Return when the next timer is due."""
        if self._has_news:
            return 0.0
        present = [n for n in self.neighbours.values() if n.is_present]
        due = [n.heard_at + HOLD for n in present]
        live = [n for n in present if n.session]
        due += [n.beat_at for n in live]
        due += [dial.hello_at for dial in self._dials.values() if self._is_idle(dial)]
        due += [self._poll_at] if any(n.jobs for n in live) else []
        return min(due, default=None)

    def _is_idle(self, dial: _Dial) -> bool:
        """Tell whether a broker that this one connects to has no session."""
        found = self.neighbours.get(dial.broker)
        return found is None or not found.session

    def advance(self, now: float) -> Sequence[Event | Send]:
        """Send heartbeats and offers, end silent sessions, begin new ones."""
        done: Received = []
        for neighbour in self.neighbours.values():
            if neighbour.is_present and now >= neighbour.heard_at + HOLD:
                done += neighbour.end(f"the link to broker {neighbour.name} is broken")
            elif neighbour.session:
                done += self._beat(neighbour, now)
        self._has_news = False
        for address, dial in self._dials.items():
            if self._is_idle(dial) and now >= dial.hello_at:
                dial.session, dial.hello_at = self._new_session(), now + BEAT_EVERY
                done.append(Send(address, wire.encode(self.me, dial.session, wire.Hello())))
        if now >= self._poll_at:
            self._poll_at = now + POLL_EVERY / 2
            done += self._polls(now)
        return done

    def _beat(self, neighbour: Neighbour, now: float) -> list[Send]:
        sends = self._offers(neighbour) if self._has_news or now >= neighbour.beat_at else []
        if now >= neighbour.beat_at:
            neighbour.beat_at = now + BEAT_EVERY
            sends.append(self._to(neighbour, wire.Beat()))
        return sends

    def _polls(self, now: float) -> Iterable[Send]:
        for each in self.neighbours.values():
            for job, attempt in each.silent_jobs(now - POLL_EVERY) if each.session else ():
                each.reported(job, now)
                yield self._to(each, wire.Poll(job, attempt))
