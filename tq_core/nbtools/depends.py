"""Which cells' outputs rest on something that this run does not have: full sizes, or the real model.

Names are followed through a notebook's statements: a statement that uses a source depends on it, and so does every
later one that uses a name which it set. What only hidden state carries on is not seen; such a cell is then
compared and its drift reported, so the error is on the strict side.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

FAST = "fast"  # nb.fast(): reduced sizes
REAL = "real_or_tiny"  # models.real_or_tiny(): the real model, or the tiny one where it is absent


def _uses(statement: ast.stmt, names: set[str], source: str) -> bool:
    """Whether a statement reads one of ``names``, or has ``source`` as a name or behind a dot."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names | {source}:
            return True
        if isinstance(node, ast.Attribute) and node.attr == source:
            return True
        if isinstance(node, ast.AugAssign) and names & set(_base(node.target)):
            return True
    return False


def _base(node: ast.expr) -> Iterator[str]:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Name):
        yield node.id


def _set(statement: ast.stmt) -> set[str]:
    """Names that a statement binds or changes; those of imports stay what they are."""
    found: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            found.update(_base(node))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if isinstance(node.value.func, ast.Attribute):  # rows.append(...)
                found.update(_base(node.value))
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
    return found


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements in order; those inside ``try`` and ``with`` count as if they stood outside."""
    for statement in body:
        if isinstance(statement, ast.Try):
            handlers = [inner for handler in statement.handlers for inner in handler.body]
            yield from _statements([*statement.body, *handlers, *statement.orelse, *statement.finalbody])
        elif isinstance(statement, ast.With):
            yield from (ast.Expr(item.context_expr) for item in statement.items)
            yield from _statements(statement.body)
        else:
            yield statement


def dependent(notebook: Any, source: str) -> set[int]:
    """Numbers, from 1, of the cells that use ``source`` (a called name) or what was made with it.

    Names of imported modules do not become dependent: ``nb.show(figure)`` with a dependent figure leaves ``nb`` as it is.
    """
    found: set[int] = set()
    names: set[str] = set()
    imported: set[str] = set()
    for number, cell in enumerate(notebook.cells, 1):
        if cell.cell_type != "code":
            continue
        for statement in _statements(ast.parse(cell.source).body):
            if isinstance(statement, ast.Import | ast.ImportFrom):
                imported |= {(alias.asname or alias.name).split(".")[0] for alias in statement.names}
            elif _uses(statement, names, source):
                found.add(number)
                names |= _set(statement) - imported
            elif isinstance(statement, ast.Assign):  # made anew, of other things
                names -= {target.id for target in statement.targets if isinstance(target, ast.Name)}
    return found
