"""Mutations: small changes of a module that its tests should notice. Pure; runs nothing.

The operators are hand-picked for code that decides: conditions, comparisons, dropped statements,
returned values, small constants. Left alone are messages, assertions, annotations, defaults and
module constants: a change there is no change of a decision.
"""

import ast
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Final

_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
}
_CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
#: Calls whose absence no test should have to notice.
_UNTESTED: Final = frozenset({"log"})


@dataclass(frozen=True)
class Mutation:
    """One change of one module; `index` counts its changes from the top."""

    index: int
    line: int
    operator: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.line}: {self.operator}: {self.before} -> {self.after}"


def mutations(source: str) -> list[Mutation]:
    """Return every mutation of a module, in order."""
    mutator = _Mutator(None)
    mutator.visit(ast.parse(source))
    return mutator.found


def mutate(source: str, index: int) -> ast.Module:
    """Return a module with one mutation."""
    tree = _Mutator(index).visit(ast.parse(source))
    assert isinstance(tree, ast.Module)
    return ast.fix_missing_locations(tree)


class _Mutator(ast.NodeTransformer):
    """Visits what decides, children first; replaces the node of the wanted mutation."""

    def __init__(self, wanted: int | None) -> None:
        self._wanted = wanted
        self._is_inside = False
        self.found: list[Mutation] = []

    def visit(self, node: ast.AST) -> ast.AST:
        visited: ast.AST = super().visit(node)
        if not self._is_inside:
            return visited
        chosen = visited
        for operator, new in _variants(visited):
            mutation = Mutation(
                len(self.found), getattr(node, "lineno", 0), operator, _text(visited), _text(new)
            )
            self.found.append(mutation)
            if mutation.index == self._wanted:
                chosen = ast.copy_location(new, node)
        return chosen

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.body = self._visit_body(node.body)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        node.body = self._visit_body(node.body)
        return node

    def _visit_body(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Visit the statements of a function; its defaults and annotations are left alone."""
        was_inside, self._is_inside = self._is_inside, True
        visited = [self.visit(statement) for statement in body]
        self._is_inside = was_inside
        return [statement for statement in visited if isinstance(statement, ast.stmt)]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        value = self.visit(node.value) if node.value is not None else None
        node.value = value if isinstance(value, ast.expr) else None
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.Assert:
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.Raise:
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.JoinedStr:
        return node


def _variants(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the mutations of one node."""
    if isinstance(node, ast.expr):
        yield from _expressions(node)
    elif isinstance(node, ast.stmt):
        yield from _statements(node)


def _expressions(node: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    new = copy(node)
    if isinstance(new, ast.Compare) and len(new.ops) == 1:
        new.ops = [_COMPARISONS[type(new.ops[0])]()]
        yield "comparison", new
    elif isinstance(new, ast.BoolOp):
        new.op = ast.Or() if isinstance(new.op, ast.And) else ast.And()
        yield "and/or", new
    elif isinstance(new, ast.UnaryOp) and isinstance(new.op, ast.Not):
        yield "not dropped", new.operand
    elif isinstance(new, ast.IfExp) and not _negates_itself(new.test):
        new.test = ast.UnaryOp(ast.Not(), new.test)
        yield "condition negated", new
    elif isinstance(new, ast.BinOp) and type(new.op) in _ARITHMETIC and not _is_text(new):
        new.op = _ARITHMETIC[type(new.op)]()
        yield "arithmetic", new
    elif isinstance(new, ast.Call) and isinstance(new.func, ast.Name) and new.func.id in _CALLS:
        new.func = ast.Name(_CALLS[new.func.id], new.func.ctx)
        yield "call", new
    elif isinstance(new, ast.Constant) and isinstance(new.value, bool):
        yield "constant", ast.Constant(not new.value)
    elif isinstance(new, ast.Constant) and isinstance(new.value, int | float):
        yield "constant", ast.Constant(new.value + 1)


def _statements(node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    new = copy(node)
    if isinstance(new, ast.If | ast.While) and not _negates_itself(new.test):
        new.test = ast.UnaryOp(ast.Not(), new.test)
        yield "condition negated", new
    elif isinstance(new, ast.Expr) and isinstance(new.value, ast.Call | ast.Await):
        if not _is_untested(new.value):
            yield "call dropped", ast.Pass()
    elif isinstance(new, ast.Assign) and _is_stored(new.targets):
        yield "assignment dropped", ast.Pass()
    elif isinstance(new, ast.AugAssign | ast.Delete):
        yield "change dropped", ast.Pass()
    elif isinstance(new, ast.Return) and new.value is not None and not _is_plain(new.value):
        yield "nothing returned", ast.Return(ast.Constant(None))
    elif isinstance(new, ast.Break):
        yield "goes on", ast.Continue()
    elif isinstance(new, ast.Continue):
        yield "goes on", ast.Pass()


def _negates_itself(test: ast.expr) -> bool:
    """Tell whether another operator negates this condition already."""
    is_not = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    return is_not or (isinstance(test, ast.Compare) and len(test.ops) == 1)


def _is_text(node: ast.BinOp) -> bool:
    sides = (node.left, node.right)
    return any(
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
        for side in sides
    )


def _is_untested(node: ast.expr) -> bool:
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return bool(names & _UNTESTED)


def _is_stored(targets: list[ast.expr]) -> bool:
    """Tell whether an assignment outlives its function: without a local name, it still compiles."""
    flat = [each for target in targets for each in getattr(target, "elts", [target])]
    return all(isinstance(each, ast.Attribute | ast.Subscript) for each in flat)


def _is_plain(value: ast.expr) -> bool:
    """Tell whether a returned value is a constant, which has an operator of its own."""
    return isinstance(value, ast.Constant)


def _text(node: ast.AST) -> str:
    line = ast.unparse(node).splitlines()[0]
    return line if len(line) <= 70 else line[:67] + "..."
