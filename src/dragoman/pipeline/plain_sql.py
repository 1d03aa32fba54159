"""Queries that Spark and DuckDB answer alike, so that small tables need no Spark for them.

The two languages differ in ways that no error shows: `seqs[0]`, `"text"`, `cast(1.7 as int)`,
`concat(null, 'a')`, `1 / 0`. So a query is plain only if every word and sign of it is known to
mean the same: these keywords and functions, the names of our tables and columns, and its own
names after `as`. Everything else is Spark's SQL.
"""

import re
from typing import Final

from dragoman.pipeline.tables import TABLES

_KEYWORDS: Final = frozenset(
    {"select", "distinct", "as", "from", "left", "inner", "join", "on", "where", "group", "by"}
    | {"having", "order", "asc", "desc", "limit", "union", "all", "and", "or", "not", "in", "is"}
    | {"null", "like", "between", "case", "when", "then", "else", "end", "true", "false"}
)
_FUNCTIONS: Final = frozenset({"abs", "avg", "coalesce", "count", "lower", "max", "min", "sum"})
_NAMES: Final = frozenset(TABLES) | {name for one in TABLES.values() for name in one.names}
#: Spaces, texts without an escape, numbers, words and signs. A hyphen alone: two are a comment.
_TOKEN: Final = re.compile(
    r"\s+|'[^'\\]*'|\d+(?:\.\d+)?(?![\w.])|(?P<word>[A-Za-z_]\w*)(?P<call>\s*\()?"
    r"|<=|>=|<>|!=|-(?!-)|[=<>,.()+*]"
)
_OWN_NAME: Final = re.compile(r"\bas\s+([a-z_]\w*)")


def is_plain(sql: str) -> bool:
    """Whether both engines give the same answer to a query."""
    at, text = 0, sql.rstrip("; \t\r\n").lower()
    known = _KEYWORDS | _FUNCTIONS | _NAMES | {*_OWN_NAME.findall(text)}
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or not _is_known(token, known):
            return False
        at = token.end()
    return text.lstrip().startswith("select")


def _is_known(token: re.Match[str], known: frozenset[str]) -> bool:
    word = token["word"]
    if word is None:
        return True
    return word in known and (not token["call"] or word in _FUNCTIONS | _KEYWORDS)
