"""The seeds of the fuzzer are valid messages."""

from dragoman.dialects.mdp.seeds import SEEDS
from dragoman.dialects.mdp.wire import decode


def test_every_seed_is_a_message_of_each_version() -> None:
    messages = [decode(frames) for frames in SEEDS]
    assert {message.version for message in messages} == {1, 2}
    assert len({type(message) for message in messages}) == 6
