"""What a mutant is: the source of a module with one small thing changed."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

_OPERATORS: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.Div(),
    ast.Div: ast.Mult(),
    ast.FloorDiv: ast.Mult(),
    ast.Mod: ast.Mult(),
    ast.Pow: ast.Mult(),
    ast.MatMult: ast.Mult(),
    ast.LShift: ast.RShift(),
    ast.RShift: ast.LShift(),
    ast.BitAnd: ast.BitOr(),
    ast.BitOr: ast.BitAnd(),
    ast.BitXor: ast.BitAnd(),
}
#: Each with its edge moved, and turned round.
_COMPARISONS: dict[type[ast.cmpop], list[ast.cmpop]] = {
    ast.Lt: [ast.LtE(), ast.GtE()],
    ast.LtE: [ast.Lt(), ast.Gt()],
    ast.Gt: [ast.GtE(), ast.LtE()],
    ast.GtE: [ast.Gt(), ast.Lt()],
    ast.Eq: [ast.NotEq()],
    ast.NotEq: [ast.Eq()],
    ast.Is: [ast.IsNot()],
    ast.IsNot: [ast.Is()],
    ast.In: [ast.NotIn()],
    ast.NotIn: [ast.In()],
}


@dataclass(frozen=True)
class Mutant:
    """One change of one module: the change of a node that `ast.walk` comes by as `number`.

    `statement` is the line where its statement begins.
    """

    path: Path
    line: int
    statement: int
    what: str
    number: int
    change: int

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.name}:{self.line}: {self.what}"

    def source(self) -> str:
        return ast.unparse(self._tree())

    def code(self) -> CodeType:
        return compile(self._tree(), str(self.path), "exec")

    def functions(self) -> dict[Place, CodeType] | None:
        """Code of the module's functions; None where more than their code is changed."""
        changed = self.code()
        if not _alike_outside_functions(_code_of(self.path), changed):
            return None
        return functions_of(changed)

    def assignment(self) -> tuple[list[str], CodeType] | None:
        """Names that a changed assignment of the module gives values to, and its code.

        None where something else is changed.
        """
        for node in self._tree().body:
            if node.lineno == self.statement and isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                below = [part for target in targets for part in ast.walk(target)]
                names = [part.id for part in below if isinstance(part, ast.Name)]
                alone = ast.Module([node], [])
                return names, compile(alone, str(self.path), "exec")
        return None

    def _tree(self) -> ast.Module:
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        place = _nth(tree, self.number)
        _put(place, list(_changes(place))[self.change])
        return ast.fix_missing_locations(tree)


#: Name and first line of a function.
Place = tuple[str, int]


@functools.cache
def _code_of(path: Path) -> CodeType:
    return compile(path.read_text(encoding="utf-8"), str(path), "exec")


def _inner(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def functions_of(code: CodeType) -> dict[Place, CodeType] | None:
    """By their places, those inside others too; None where two have the same place."""
    found: dict[Place, CodeType] = {}
    below = _inner(code)
    while below:
        inner = below.pop()
        place = (inner.co_qualname, inner.co_firstlineno)
        if place in found:
            return None
        found[place] = inner
        below += _inner(inner)
    return found


def _alike_outside_functions(one: CodeType, other: CodeType) -> bool:
    """Do the bodies of modules and classes the same, apart from functions that they make?"""
    if one.co_flags & inspect.CO_NEWLOCALS:  # a function
        return True
    constants = [
        [repr(value) for value in code.co_consts if not isinstance(value, CodeType)]
        for code in (one, other)
    ]
    return (
        (one.co_code, one.co_names) == (other.co_code, other.co_names)
        and constants[0] == constants[1]
        and all(map(_alike_outside_functions, _inner(one), _inner(other)))
    )


def mutants_of(path: Path) -> list[Mutant]:
    """All of them, in the order of the lines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    untold = _untold(tree)
    begins = _statements(tree)
    found = []
    for number, node in enumerate(ast.walk(tree)):
        if id(node) in untold:
            continue
        for change, other in enumerate(_changes(node)):
            what = f"{ast.unparse(node)} -> {ast.unparse(other)}".replace("\n", " ")
            begin = begins[id(node)]
            found.append(Mutant(path, getattr(node, "lineno", begin), begin, what, number, change))
    return sorted(found, key=lambda mutant: mutant.line)


def _statements(tree: ast.Module) -> dict[int, int]:
    """Where the innermost statement around each node begins."""
    begins: dict[int, int] = {}

    def note(node: ast.AST, begin: int) -> None:
        if isinstance(node, ast.stmt):
            begin = node.lineno
        begins[id(node)] = begin
        for child in ast.iter_child_nodes(node):
            note(child, begin)

    note(tree, 0)
    return begins


def _nth(tree: ast.AST, number: int) -> ast.AST:
    for i, node in enumerate(ast.walk(tree)):
        if i == number:
            return node
    raise IndexError(number)


def _put(place: ast.AST, changed: ast.AST) -> None:
    """Make one node into another, in place."""
    place.__class__ = changed.__class__
    old = {name for name in vars(place) if name not in changed._attributes}
    for name in old:
        delattr(place, name)
    for name, value in ast.iter_fields(changed):
        setattr(place, name, copy.deepcopy(value))


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    """Other nodes for a node."""
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        yield ast.BinOp(node.left, _OPERATORS[type(node.op)], node.right)
    elif isinstance(node, ast.AugAssign) and type(node.op) in _OPERATORS:
        yield ast.AugAssign(node.target, _OPERATORS[type(node.op)], node.value)
        yield ast.Pass()
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        for op in _COMPARISONS[type(node.ops[0])]:
            yield ast.Compare(node.left, [op], node.comparators)
    elif isinstance(node, ast.BoolOp):
        either: ast.boolop = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield ast.BoolOp(either, node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        yield node.operand
    elif isinstance(node, ast.Constant):
        yield from (ast.Constant(value) for value in _other_constants(node.value))
    elif isinstance(node, ast.IfExp):
        yield ast.IfExp(node.test, node.orelse, node.body)
    elif isinstance(node, ast.Break):
        yield ast.Continue()
    elif isinstance(node, ast.Continue):
        yield ast.Break()
    elif _has_effect_alone(node):
        yield ast.Pass()


def _has_effect_alone(node: ast.AST) -> bool:
    """Is it a statement that can go without a name that others miss?"""
    if isinstance(node, ast.Assign):
        return isinstance(node.targets[0], ast.Subscript)
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


def _other_constants(value: object) -> list[bool | int | float]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1]
    if isinstance(value, float):
        return [value * 1.5 if value else 1.0]
    return []


def _untold(tree: ast.AST) -> set[int]:
    """Nodes from which nothing follows: annotations, and what errors and warnings say."""
    found: set[int] = set()
    for node in ast.walk(tree):
        aside: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef):
            aside = [node.returns, *node.decorator_list]
        elif isinstance(node, ast.arg | ast.AnnAssign):
            aside = [node.annotation]
        elif isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert):
            aside = [node]
        elif isinstance(node, ast.ClassDef):
            aside = [*node.decorator_list]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("warn"):
            aside = [node]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".reshape"):
            # NumPy takes any number below 0 for the length that is left.
            below = [part for part in node.args if isinstance(part, ast.UnaryOp)]
            aside = [part.operand for part in below if isinstance(part.op, ast.USub)]
        found |= {id(below) for top in aside if top is not None for below in ast.walk(top)}
    return found
