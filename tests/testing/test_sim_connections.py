"""Simulated connections carry frames as their transports do."""

from typing import Any

from dragoman.testing.network import MessageFaults, Network
from dragoman.testing.sim_connections import SimDealer, SimHub, SimRequester, SimSubscriber
from dragoman.testing.world import World


class Post:
    def __init__(self) -> None:
        self.world = World(1)
        self.world.is_faulty = False
        self.arrived: list[tuple[str, bytes, list[bytes]]] = []
        self.heard: list[list[bytes]] = []
        network = Network(self.world, MessageFaults())
        self.hub = SimHub(self.world, network, lambda *said: self.arrived.append(said))

    def line(self, kind: Any) -> Any:
        return kind(self.hub, "link", "peer", self.heard.append)

    def run(self, seconds: float = 0.1) -> None:
        until = self.world.now + seconds
        while self.world.next_at() <= until:
            self.world.step()
        self.world.now = until

    def answer(self, address: bytes, *frames: bytes) -> bool:
        found = self.hub.find("link", address)
        if found is not None:
            found[1](list(frames))
        return found is not None


def test_a_dealer_is_known_by_its_name_while_it_is_connected() -> None:
    post = Post()
    line = post.line(SimDealer)
    line.open()
    line.send([b"hello"])
    post.run()
    assert post.arrived == [("link", b"peer", [b"hello"])]
    assert post.answer(b"peer", b"welcome")
    assert post.heard == [[b"welcome"]]
    line.close()
    assert not post.answer(b"peer", b"again")


def test_a_request_has_its_own_address_and_one_answer() -> None:
    post = Post()
    line = post.line(SimRequester)
    line.open()
    line.send([b"t1", b"ask"])
    line.send([b"t2", b"ask"])
    post.run()
    (_, first, _), (_, second, _) = post.arrived
    assert first != second
    assert first[:8] == second[:8]
    assert post.answer(second, b"answer")
    assert post.heard == [[b"t2", b"answer"]]
    assert not post.answer(second, b"again")


def test_an_open_request_is_sent_again_and_a_closed_one_is_not() -> None:
    post = Post()
    line = post.line(SimRequester)
    line.open()
    line.send([b"t1", b"ask"])
    line.send([b"t1", b"ask"])
    post.run(5.0)
    assert len(post.arrived) == 3
    line.close()
    post.run(5.0)
    assert post.arrived[-1][2] == []
    assert len(post.arrived) == 4


def test_a_request_with_a_limit_is_given_up() -> None:
    post = Post()
    line = post.line(SimRequester)
    line.open()
    line.send([b"t1", b"ask", b"500"])
    line.send([b"t1", b"ask again", b"800"])
    post.run(1.0)
    assert post.heard == [[b"t1"]]


def test_a_subscriber_receives_its_subjects() -> None:
    post = Post()
    line = post.line(SimSubscriber)
    line.subscriptions = ("a.*.c", "x.>")
    line.open()
    assert post.answer(b"a.b.c", b"1")
    assert post.answer(b"x.y.z", b"2")
    assert not post.answer(b"a.b", b"3")
    assert not post.answer(b"a.b.c.d", b"4")
    assert post.heard == [[b"a.b.c", b"1"], [b"x.y.z", b"2"]]
    line.send([b"to.all", b"payload"])
    post.run()
    assert post.arrived == [("link", b"to.all", [b"payload"])]
    line.close()
    assert not post.answer(b"a.b.c", b"5")
