import pytest

from dragoman.compat.dramatiq import DragomanBroker, actor, group, pipeline

work = actor(print, broker=DragomanBroker())


def test_pipelines_are_flat() -> None:
    pipe = pipeline([work.message(1), work.message(2) | work.message(3)]) | work.message(4)
    assert [message.args for message in pipe.messages] == [(1,), (2,), (3,), (4,)]
    with pytest.raises(RuntimeError, match="call run"):
        pipe.get_result()


def test_a_group_has_its_messages() -> None:
    assert len(group(work.message(n) for n in range(3))) == 3
