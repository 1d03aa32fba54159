"""The broker's end of ZSS: two links, front-end and back-end, that share what they know."""

from collections.abc import Callable

from dragoman.dialects.base import Wardrobe
from dragoman.dialects.zss.answers import Answers
from dragoman.dialects.zss.back_side import BackSide
from dragoman.dialects.zss.front_side import FrontSide
from dragoman.dialects.zss.instances import Instances
from dragoman.dialects.zss.settings import Settings
from dragoman.dialects.zss.wire import NAME

BACKEND = NAME + "_backend"


def broker_sides(
    *,
    wardrobe: Wardrobe,
    ids: Callable[[], str],
    settings: Settings | None = None,
    front: str = NAME,
    back: str = BACKEND,
) -> tuple[FrontSide, BackSide]:
    """Make both sides; either alone is of no use."""
    chosen = settings or Settings()
    answers = Answers(wardrobe, chosen.traces)
    instances = Instances(chosen.names)
    return (
        FrontSide(
            front,
            answers=answers,
            instances=instances,
            wardrobe=wardrobe,
            ids=ids,
            settings=chosen,
        ),
        BackSide(
            back,
            front=front,
            answers=answers,
            instances=instances,
            wardrobe=wardrobe,
            settings=chosen,
        ),
    )
