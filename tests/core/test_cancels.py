"""Cancels of whole trees: a loop, however deep the tree is."""

from tests.core.builders import Stage, cancelled, joined, submitted

from dragoman.core.limits import Limits
from dragoman.model.parent import Parent


def test_a_deep_tree_is_cancelled_without_recursion() -> None:
    depth = 1500
    stage = Stage(Limits(nesting=depth + 1))
    stage.broker.handle(joined("w1", credit=depth), stage.now)
    stage.broker.handle(submitted("0"), stage.now)
    for n in range(1, depth):
        stage.broker.handle(submitted(str(n), client="w1", parent=Parent(str(n - 1), 1)), stage.now)
    stage.tell(cancelled("0"))
    assert stage.broker.state.store.open_jobs == 0
