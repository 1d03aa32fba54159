"""The guard of read-only SQL: a statement must be a query over named tables.

Spark's own parser reads the statement. Every node of its plan, including subqueries and common
tables, must be listed here. Everything else is refused by name: commands, writes, scripts, dynamic
SQL, and nodes that a later Spark adds. The session is hardened too: it has only the functions that
`functions` lists, so Spark itself finds no other, however a statement names it.
"""

from collections.abc import Collection, Iterator
from typing import Any, Final

from pyspark.sql import SparkSession

from dragoman.spark.functions import FUNCTIONS, TABLE_FUNCTIONS
from dragoman.spark.plans import items, nodes

#: Operators of queries, as the parser makes them.
_QUERIES: Final = """
    Aggregate Deduplicate Distinct Except Filter Generate GlobalLimit Intersect Join LateralJoin
    Limit LocalLimit LocalRelation Offset OneRowRelation PipeOperator Pivot Project Range
    Repartition RepartitionByExpression RebalancePartitions Sample Sort SubqueryAlias Tail Union
    Unpivot UnresolvedHaving UnresolvedHint UnresolvedInlineTable UnresolvedQualify
    UnresolvedRelation UnresolvedSubqueryColumnAliases UnresolvedTVFAliases
    UnresolvedTableValuedFunction UnresolvedWith Window WithWindowDefinition
"""
QUERIES: Final = frozenset(_QUERIES.split())
_RELATION: Final = "UnresolvedRelation"


class NotAllowed(Exception):
    """The statement is refused. The message says which part of it, and where."""


def harden(session: SparkSession) -> None:
    """Switch off files by path and variables of the process."""
    session.conf.set("spark.sql.runSQLOnFiles", "false")
    # `${env:NAME}` in a statement would be replaced by a variable of this process.
    session.conf.set("spark.sql.variable.substitute", "false")


def restrict_functions(session: SparkSession) -> None:
    """Drop every function that queries of clients may not call."""
    state = session._jsparkSession.sessionState()
    _keep_only(state.functionRegistry(), FUNCTIONS)
    _keep_only(state.tableFunctionRegistry(), TABLE_FUNCTIONS)


def _keep_only(registry: Any, names: Collection[str]) -> None:
    """Drop every function of this session that is not listed."""
    for function in [*items(registry.listFunction())]:
        if str(function.funcName()) not in names:
            registry.dropFunction(function)


def parse(session: SparkSession, text: str) -> object:
    """Return the plan of a statement. Raises Spark's `ParseException` if it is not SQL."""
    return session._jsparkSession.sessionState().sqlParser().parsePlan(text)


def check_plan(root: object, names: Collection[str] | None = None) -> None:
    """Raise `NotAllowed` unless a plan is a query, over the named tables if `names` is given."""
    found = list(nodes(root))
    withs = [node for node in found if node.nodeName() == "UnresolvedWith"]
    common = {alias for node in withs for alias in _common_tables(node)}
    for node in found:
        kind = node.nodeName().rstrip("$")
        if kind not in QUERIES:
            raise NotAllowed(f"{_position(node)}only queries are allowed; {kind} is not a query")
        if kind == _RELATION and names is not None:
            _check_table(node, {name.lower() for name in names}, common)
        elif kind == "UnresolvedTableValuedFunction":
            _check_function(node)


def _check_table(node: Any, names: Collection[str], common: Collection[str]) -> None:
    parts = [str(part) for part in items(node.multipartIdentifier())]
    if len(parts) != 1 or parts[0].lower() not in {*names, *common}:
        known = ", ".join(sorted(names)) or "none"
        raise NotAllowed(
            f"{_position(node)}unknown table {'.'.join(parts)!r}; known tables: {known}"
        )


def _check_function(node: Any) -> None:
    name = ".".join(str(part) for part in items(node.name()))
    if name.lower() not in TABLE_FUNCTIONS:
        raise NotAllowed(f"{_position(node)}the table function {name!r} is not allowed")


def _common_tables(node: Any) -> Iterator[str]:
    """Yield the names of the common tables that a WITH defines."""
    for each in items(node.innerChildren()):
        if each.nodeName() == "SubqueryAlias":
            yield str(each.alias()).lower()


def _position(node: Any) -> str:
    """Return a node's position in the statement as text; empty if unknown."""
    line, start = node.origin().line(), node.origin().startPosition()
    if line.isEmpty() or start.isEmpty():
        return ""
    return f"line {line.get()}, column {start.get() + 1}: "
