"""Our own client and worker sides, plugged into a fabric."""

from collections.abc import Iterable
from typing import Any, Protocol

from tests.dialects.fabric import Fabric

from dragoman.dialects.base import Frames
from dragoman.dialects.peer_sides import Alive, SendNow


class Side(Protocol):
    """A side of either kind reads what it is sent."""

    def receive(self, frames: Frames) -> Iterable[Any]: ...


class Beating(Protocol):
    """A worker's side."""

    def beat(self) -> list[Frames]: ...


class Peer:
    """A side at an address of a link."""

    def __init__(self, house: Fabric, link: str, address: bytes, side: Side) -> None:
        self.house, self.link, self.address, self.side = house, link, address, side

    def send(self, messages: list[Frames]) -> None:
        self.house.say(self.link, self.address, *messages)

    def heard(self) -> list[Any]:
        sent = self.house.hear(self.link, self.address)
        return [said for frames in sent for said in self.side.receive(frames)]


def beats(peer: Peer, worker: Beating, seconds: int) -> list[Any]:
    """Let a worker live for some time; return what it was given to do."""
    work = []
    for _ in range(seconds):
        peer.send(worker.beat())
        peer.house.wait(1.0)
        for said in peer.heard():
            if type(said) is SendNow:
                peer.send([said.frames])
            elif type(said) is not Alive:
                work.append(said)
    return work + [w for w in peer.heard() if type(w) is not Alive]
