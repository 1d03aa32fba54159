"""The guard of read-only SQL: a statement must be a query over named tables.

Spark's own parser reads the statement. Every node of its plan, including subqueries and common
tables, must be listed here. Everything else is refused by name: commands, writes, scripts, dynamic
SQL, and nodes that a later Spark adds. The session is hardened too: if a statement slips through,
it reaches no file and no Java method.
"""

from collections.abc import Collection, Iterator
from typing import Any, Final

from pyspark.sql import SparkSession

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
#: Table functions that read only their arguments.
_TABLE_FUNCTIONS: Final = """
    collations explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer
    range sequence sql_keywords stack variant_explode variant_explode_outer
"""
TABLE_FUNCTIONS: Final = frozenset(_TABLE_FUNCTIONS.split())
#: Functions that call Java methods.
DANGEROUS: Final = ("reflect", "java_method", "try_reflect")
_RELATION: Final = "UnresolvedRelation"


class NotAllowed(Exception):
    """The statement is refused. The message says which part of it, and where."""


def harden(session: SparkSession) -> None:
    """Switch off what a query over named tables does not need."""
    session.conf.set("spark.sql.runSQLOnFiles", "false")
    # `${env:NAME}` in a statement would be replaced by a variable of this process.
    session.conf.set("spark.sql.variable.substitute", "false")
    jvm: Any = session._jvm
    registry = session._jsparkSession.sessionState().functionRegistry()
    path = [jvm.scala.Option.apply(part) for part in ("builtin", "system")]
    for name in DANGEROUS:
        registry.dropFunction(jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name, *path))


def parse(session: SparkSession, text: str) -> Any:
    """Return the plan of a statement. Raises Spark's `ParseException` if it is not SQL."""
    return session._jsparkSession.sessionState().sqlParser().parsePlan(text)


def check_plan(root: Any, names: Collection[str] | None = None) -> None:
    """Raise `NotAllowed` unless a plan is a query, over the named tables if `names` is given."""
    nodes = list(_nodes(root))
    withs = [node for node in nodes if node.nodeName() == "UnresolvedWith"]
    common = {alias for node in withs for alias in _common_tables(node)}
    for node in nodes:
        kind = node.nodeName().rstrip("$")
        if kind not in QUERIES:
            raise NotAllowed(f"{_position(node)}only queries are allowed; {kind} is not a query")
        if kind == _RELATION and names is not None:
            _check_table(node, {name.lower() for name in names}, common)
        elif kind == "UnresolvedTableValuedFunction":
            _check_function(node)


def _check_table(node: Any, names: Collection[str], common: Collection[str]) -> None:
    parts = [str(part) for part in _items(node.multipartIdentifier())]
    if len(parts) != 1 or parts[0].lower() not in {*names, *common}:
        known = ", ".join(sorted(names)) or "none"
        raise NotAllowed(
            f"{_position(node)}unknown table {'.'.join(parts)!r}; known tables: {known}"
        )


def _check_function(node: Any) -> None:
    name = ".".join(str(part) for part in _items(node.name()))
    if name.lower() not in TABLE_FUNCTIONS:
        raise NotAllowed(f"{_position(node)}the table function {name!r} is not allowed")


def _nodes(node: Any) -> Iterator[Any]:
    """Yield every operator of a plan. Subqueries are inner children of their operators."""
    yield node
    for below in (node.children(), node.innerChildren()):
        for each in _items(below):
            if hasattr(each, "nodeName"):
                yield from _nodes(each)


def _common_tables(node: Any) -> Iterator[str]:
    """Yield the names of the common tables that a WITH defines."""
    for each in _items(node.innerChildren()):
        if each.nodeName() == "SubqueryAlias":
            yield str(each.alias()).lower()


def _items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(i) for i in range(sequence.size()))


def _position(node: Any) -> str:
    """Return a node's position in the statement as text; empty if unknown."""
    line, start = node.origin().line(), node.origin().startPosition()
    if line.isEmpty() or start.isEmpty():
        return ""
    return f"line {line.get()}, column {start.get() + 1}: "
