"""The dialects of this broker. To add one, add its folder to `FOLDERS`."""

from functools import cache
from importlib import import_module
from typing import Final

from dragoman.dialects.base import BodyCodecs
from dragoman.dialects.descriptor import Dialect

FOLDERS: Final = (
    "nfp",
    "dcp",
    "zss",
    "memo01",
    "ncl",
    "http",
    "mdp",
)


def _load(folder: str) -> Dialect:
    dialect: Dialect = import_module(f"dragoman.dialects.{folder}.dialect").DIALECT
    return dialect


#: All dialects by name, which is the scheme of their URLs.
DIALECTS: Final = {dialect.name: dialect for dialect in map(_load, FOLDERS)}


@cache
def body_codecs() -> BodyCodecs:
    """Return all body codecs by dialect, that of the built-in services included."""
    from dragoman.dialects.local.body_codec import LocalBodyCodec

    codecs = [*(dialect.body_codec() for dialect in DIALECTS.values()), LocalBodyCodec()]
    return {codec.name: codec for codec in codecs}
