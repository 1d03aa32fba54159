"""The broker's end of ZSS: front-end and back-end, two links with shared state."""

from collections.abc import Callable

from dragoman.dialects.base import BodyCodecs
from dragoman.dialects.zss.back_side import ZssBackSide
from dragoman.dialects.zss.front_side import ZssFrontSide
from dragoman.dialects.zss.instances import ServiceInstances
from dragoman.dialects.zss.replies import ZssReplies
from dragoman.dialects.zss.settings import ZssSettings
from dragoman.dialects.zss.wire import NAME

BACKEND = NAME + "_backend"


def broker_sides(
    *,
    codecs: BodyCodecs,
    ids: Callable[[], str],
    settings: ZssSettings | None = None,
    front: str = NAME,
    back: str = BACKEND,
) -> tuple[ZssFrontSide, ZssBackSide]:
    """Make both sides. They share the open requests and the registered instances."""
    chosen = settings or ZssSettings()
    replies = ZssReplies(codecs, chosen.traces)
    instances = ServiceInstances(chosen.names)
    return (
        ZssFrontSide(
            front,
            replies=replies,
            instances=instances,
            codecs=codecs,
            ids=ids,
            settings=chosen,
        ),
        ZssBackSide(
            back,
            front=front,
            replies=replies,
            instances=instances,
            codecs=codecs,
            settings=chosen,
        ),
    )
