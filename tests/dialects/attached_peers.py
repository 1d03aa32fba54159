"""Our own client and worker sides, attached to a fabric."""

from collections.abc import Iterable
from typing import Any, Protocol

from tests.dialects.fabric import Fabric

from dragoman.dialects.base import Frames
from dragoman.dialects.peer_sides import Alive, SendNow


class Side(Protocol):
    """A client or worker side."""

    def receive(self, frames: Frames) -> Iterable[Any]: ...


class BeatingSide(Protocol):
    """A worker side."""

    def beat(self) -> list[Frames]: ...


class Peer:
    """A side at an address of a link."""

    def __init__(self, fabric: Fabric, link: str, address: bytes, side: Side) -> None:
        self.fabric, self.link, self.address, self.side = fabric, link, address, side

    def send(self, messages: list[Frames]) -> None:
        self.fabric.say(self.link, self.address, *messages)

    def heard(self) -> list[Any]:
        sent = self.fabric.hear(self.link, self.address)
        return [notice for frames in sent for notice in self.side.receive(frames)]


def beats(peer: Peer, worker: BeatingSide, seconds: int) -> list[Any]:
    """Run a worker's heartbeats for some seconds; return its other notices."""
    work = []
    for _ in range(seconds):
        peer.send(worker.beat())
        peer.fabric.wait(1.0)
        for notice in peer.heard():
            if type(notice) is SendNow:
                peer.send([notice.frames])
            elif type(notice) is not Alive:
                work.append(notice)
    return work + [w for w in peer.heard() if type(w) is not Alive]
