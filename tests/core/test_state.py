"""The broker state: clients that are remembered and clients that left."""

from tests.core.builders import Stage, finished, joined, left, peer, sends, submitted

from dragoman.core.limits import Limits
from dragoman.core.state import dialect_of
from dragoman.model.names import PeerId


def test_the_client_not_heard_for_longest_is_forgotten_first() -> None:
    stage = Stage(Limits(clients=2))
    for client in ("c1", "c2", "c1", "c3"):
        stage.tell(submitted(f"by {client}", client=client))
    assert list(stage.broker.state.clients) == [peer("c1"), peer("c3")]


def test_clients_that_left_are_remembered_up_to_a_bound() -> None:
    stage = Stage(Limits(clients=2))
    stage.tell(joined("w1"), submitted("j1", client="c1"))
    stage.tell(left("c1"), left("c2"), left("c3"))
    assert list(stage.broker.state.departed_clients) == [peer("c2"), peer("c3")]
    assert sends(stage.tell(finished("w1", "j1"))) == ["final -> c1"]


def test_the_dialect_of_a_peer_is_the_first_word_of_its_link() -> None:
    assert dialect_of(PeerId("zss_backend/abc")) == "zss"
    assert dialect_of(PeerId("nfp/abc/def")) == "nfp"


def test_a_record_of_a_worker_names_its_service_when_it_has_one(stage: Stage) -> None:
    stage.tell(joined("w1", "a"), joined("w2", "a", "b"))
    assert [r.service for r in stage.records] == ["a", ""]
