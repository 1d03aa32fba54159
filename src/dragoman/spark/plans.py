"""Walks over Spark's plans, which are Java objects."""

from collections.abc import Iterator
from typing import Any


def items(sequence: Any) -> Iterator[Any]:
    """Yield the items of a Scala sequence."""
    return (sequence.apply(i) for i in range(sequence.size()))


def nodes(plan: Any) -> Iterator[Any]:
    """Yield every operator of a plan. Subqueries are inner children of their operators."""
    yield plan
    for below in (plan.children(), plan.innerChildren()):
        for each in items(below):
            if hasattr(each, "nodeName"):
                yield from nodes(each)
