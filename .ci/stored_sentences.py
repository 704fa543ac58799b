"""Finds the sentences that vtax stores with a run: why a platform was not tested or a counter is missing, notes of
guests, titles, marks.

They are stored as English text, so their templates are found where they are made: in what drivers raise, return and
note, where an f-string's expressions become placeholders.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

WHERE = (
    "platforms/*.py", "runner/*.py", "host/cgroups.py", "store/store.py",
    "counters/domains.py", "counters/energy.py", "counters/hardware.py", "counters/whole_host.py",
)  # fmt: skip
CALLS = {"Probe", "PlatformError", "RunInterrupted", "add_warning", "probed"}
NAMED = re.compile(r"notes|reason|hint|because|^_?why_no[ntw_]|^_refuse_beyond$|^not_counted$|[A-Z_]{4,}")
_WORDS = re.compile(r"[a-z]{2,}\S* +[a-z]")
_CODE = re.compile(r"[\n\\\[]|[0-9a-f]{12}|\w_\w+=")


def sentences(source: Path) -> Iterator[tuple[str, Path, int]]:
    """(template, file, line) of every sentence that is stored. source: the directory of the package."""
    for path in (path for pattern in WHERE for path in sorted(source.glob(pattern))):
        for node in _stored_nodes(ast.parse(path.read_text(encoding="utf-8"))):
            template = _template(node)
            if _WORDS.search(re.sub(r"\{\w+\}", "", template)) and not _CODE.search(template):
                yield template, path, node.lineno


def _stored_nodes(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (_name(node.func) in CALLS or _adds_a_note(node.func)):
            for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                yield from _texts(argument)
        elif _is_stored(node):
            yield from _texts(node)
        elif isinstance(node, ast.FunctionDef) and NAMED.search(node.name):
            for statement in node.body[1:] if ast.get_docstring(node) else node.body:
                yield from _texts(statement)


def _is_stored(node: ast.AST) -> bool:
    """Whether a node gives its value a name of what is stored, or returns a reason with its hint."""
    if isinstance(node, ast.keyword):
        return bool(NAMED.search(node.arg or ""))
    if isinstance(node, ast.Assign):
        return any(map(_is_named, node.targets))
    return isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)


def _adds_a_note(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "append" and bool(NAMED.search(_name(node.value)))


def _is_named(target: ast.expr) -> bool:
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    return any(NAMED.search(_name(name)) for name in names)


def _texts(node: ast.AST) -> Iterator[ast.expr]:
    """Texts within an expression or statement; of an f-string the whole."""
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        yield node
        return
    if isinstance(node, ast.keyword) and node.arg == "where":  # no place is stored
        return
    for child in ast.iter_child_nodes(node):
        yield from _texts(child)


def _template(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value) if "{" not in str(node.value) else ""
    found, seen = "", dict[str, int]()
    for part in node.values if isinstance(node, ast.JoinedStr) else ():
        if isinstance(part, ast.FormattedValue):
            name = _name(part.value) or "value"
            seen[name] = seen.get(name, 0) + 1
            found += f"{{{name}{seen[name] if seen[name] > 1 else ''}}}"
        elif isinstance(part, ast.Constant):
            found += str(part.value)
    return found


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call):
        return _name(node.func)
    return ""
