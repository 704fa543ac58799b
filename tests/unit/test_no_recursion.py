"""Nothing that reads what guests and strangers made calls itself for each of its levels.

3 000 directories in one another, or brackets in a row, end a function that does, with RecursionError. So functions of
vtax that call themselves, and those of the standard library that do (os.walk and Path.rglob up to Python 3.11,
json.loads, tomllib.loads), are listed here with the reason why their input is of few levels.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src/vtax"
_LIBRARY = frozenset(
    {"rmtree", "copytree", "os.fwalk", "rglob", "os.walk", "removedirs", "TemporaryDirectory"}
    | {"json.load", "json.loads", "JSONDecoder", "tomllib.load", "tomllib.loads", "literal_eval"}
    | {"ElementTree", "deepcopy"}
)
"""Names of functions and classes that call themselves for each level of a tree, or do when they clean up."""
_OF_VTAX = (
    "what vtax itself makes, of few levels: dataclasses, documents, models of studies, commands"
)
_OF_VALUES = "values that parse_json has read, of at most limits.DOCUMENT.depth levels"
RECURSIVE: Mapping[str, str] = {
    "cli/language.py:with_help": _OF_VTAX,
    "cli/needed_image.py:provide": "an image of the user's files, and the base below it",
    "described.py:_field": _OF_VTAX,
    "described.py:_fields": _OF_VTAX,
    "described.py:_held": _OF_VTAX,
    "described.py:_stripped": _OF_VTAX,
    "described.py:fields_of": _OF_VTAX,
    "described.py:tables_of": _OF_VTAX,
    "foreign_text.py:_cleaned": "counts its levels: limits.VALUE.depth",
    "guest/agent.py:to_json": "answers that the agent makes, of which it bounds nothing but the size",
    "host/resources.py:_check_value": "follows the type of a field of a resource, a tuple of texts",
    "image/build.py:_build": "an image, what it is made of, and the base below that",
    "image/initrd.py:collect_modules.chain_of": "modules of a kernel that the host or its packages brought",
    "messages/__init__.py:_as_json": _OF_VALUES,
    "messages/__init__.py:_from_json": _OF_VALUES,
    "messages/__init__.py:_note_of": _OF_VALUES,
    "messages/__init__.py:_storable": _OF_VTAX,
    "messages/__init__.py:part_of": _OF_VALUES,
    "page/server.py:Connection.go_on": "asks the event loop to call it again, later",
    "report/answers/compare/run_differences.py:_unlike": _OF_VALUES,
    "report/analysis/warnings.py:_range": _OF_VALUES,
    "report/analysis/warnings.py:_words": _OF_VALUES,
    "report/document/notes.py:_typed": _OF_VALUES,
    "report/document/parts.py:_flat": _OF_VTAX,
    "report/document/parts.py:_without_figures": _OF_VTAX,
    "report/renderers/marks.py:_readable": _OF_VTAX,
    "report/renderers/columns.py:_figures": _OF_VTAX,
    "report/renderers/columns.py:_mapped": _OF_VTAX,
    "report/renderers/compact.py:_rounded": _OF_VTAX,
    "report/renderers/format.py:Formatter._change_of": _OF_VTAX,
    "report/renderers/format.py:Formatter._joined": _OF_VTAX,
    "report/renderers/format.py:Formatter._message": _OF_VTAX,
    "report/renderers/format.py:Formatter._relative": _OF_VTAX,
    "report/renderers/format.py:Formatter._share_of": _OF_VTAX,
    "report/renderers/format.py:Formatter.runs": _OF_VTAX,
    "report/renderers/format.py:Formatter.text": _OF_VTAX,
    "report/renderers/format.py:Formatter.word": _OF_VTAX,
    "report/renderers/html_parts.py:HtmlParts._section": _OF_VTAX,
    "report/renderers/html_parts.py:HtmlParts.part": _OF_VTAX,
    "report/renderers/json.py:_typed": _OF_VALUES,
    "report/renderers/json.py:plain": _OF_VALUES,
    "report/renderers/terminal.py:_Terminal._part": _OF_VTAX,
    "report/renderers/terminal.py:_Terminal.parts": _OF_VTAX,
    "report/renderers/unbroken.py:_prepared_part": _OF_VTAX,
    "report/renderers/walk.py:TextPage._part": _OF_VTAX,
    "store/anonymous.py:Anonymizer._look": _OF_VALUES,
    "store/anonymous.py:Anonymizer._without": _OF_VALUES,
    "store/contents.py:_is_in": _OF_VALUES,
    "store/merging.py:_unlike": _OF_VALUES,
    "store/public_facts.py:facts_of_host": _OF_VALUES,
    "study/declared.py:alternatives_of": _OF_VTAX,
    "study/declared.py:with_units.write": "a study, of at most limits.STUDY.depth levels",
    "study/text.py:_drop_empty": _OF_VALUES,
}
"""MODULE:FUNCTION -> why the levels of its input are few."""
_OWN_FILES = "files that vtax wrote there, in one directory"
_OF_TOOLS = "what a program of this host prints, no guest's or stranger's"
_ALONE = "runs where vtax is not installed, on what vtax sent or a pack that root trusts"
_OWN_JSON = "what json.dumps made of values in memory"
LIBRARY: Mapping[str, str] = {
    "benchmarks/json_report.py:JSONDecoder": "refuses what is too deep; values are taken by key",
    "campaign/ansible.py:TemporaryDirectory": _OWN_FILES,
    "campaign/collecting.py:json.loads": _OWN_JSON,
    "campaign/pack.py:TemporaryDirectory": _OWN_FILES,
    "campaign/prepare.py:json.loads": _ALONE,
    "campaign/prepare.py:rmtree": f"{_ALONE}; its names are of at most limits.PACK.depth parts",
    "campaign/wheel.py:rglob": "the package of vtax that runs",
    "cli/own_image.py:TemporaryDirectory": _OWN_FILES,
    "conformance/declared.py:json.loads": _OWN_JSON,
    "conformance/sample.py:TemporaryDirectory": _OWN_FILES,
    "foreign_data.py:JSONDecoder": "the one place, which bounds the levels",
    "foreign_data.py:tomllib.loads": "the one place, which bounds the levels",
    "image/data/entry.py:json.loads": _ALONE,
    "image/initrd.py:rglob": "modules of a kernel that the host or its packages brought",
    "image/toolbox.py:copytree": "Python's library in the base image, of packages",
    "network/openflow_router.py:json.loads": _ALONE,
    "platforms/qemu/probe.py:json.loads": "a file of the cache, which vtax wrote",
    "platforms/ssh/there.py:json.loads": _ALONE,
    "platforms/microvm/cloud_hypervisor.py:json.loads": _OF_TOOLS,
    "platforms/oci/docker_daemon.py:json.loads": _OF_TOOLS,
    "platforms/libvirt.py:ElementTree": _OF_TOOLS,
    "platforms/qemu/process.py:json.loads": _OF_TOOLS,
    "platforms/user_network.py:json.loads": _OF_TOOLS,
    "report/exports/ro_crate.py:TemporaryDirectory": _OWN_FILES,
    "report/renderers/junit.py:ElementTree": "a document that vtax writes",
    "report/replacing.py:TemporaryDirectory": _OWN_FILES,
    "store/database.py:json.loads": _OWN_JSON,
    "store/snapshot.py:TemporaryDirectory": _OWN_FILES,
    "study/check.py:deepcopy": "a study, of at most limits.STUDY.depth levels",
}
"""MODULE:NAME -> why the levels of its input are few."""


@cache
def used() -> tuple[set[str], set[str]]:
    """`PATH:NAME` of functions that call themselves, and of those of the library that a module uses."""
    ours, of_others = set(), set()
    for path in SOURCE.rglob("*.py"):
        tree, place = ast.parse(path.read_text()), path.relative_to(SOURCE).as_posix()
        ours |= {f"{place}:{name}" for name in recursive(tree)}
        of_others |= {f"{place}:{name}" for name in of_library(tree)}
    return ours, of_others


class _Functions(ast.NodeVisitor):
    """Which functions of a module use which of it: qualified name -> qualified names.

    A name counts wherever it is read, since a function may be called by another that it is given to.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.uses: dict[str, set[str]] = {}
        self._known: set[str] = set()
        self._scopes: list[tuple[str, bool]] = []  # name, whether it is a class
        self._hidden: list[set[str]] = []
        self._is_collecting = True
        self.visit(tree)
        self._is_collecting = False
        self.visit(tree)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._scopes.append((node.name, True))
        self.generic_visit(node)
        self._scopes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._scopes.append((node.name, False))
        if self._is_collecting:
            self._known.add(self._place)
        self.uses.setdefault(self._place, set())
        self._hidden.append(_own_names(node))
        for part in node.body:
            self.visit(part)
        self._hidden.pop()
        self._scopes.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) and not any(node.id in names for names in self._hidden):
            self._use(self._resolved(node.id))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            classes = [n for n, (_, is_class) in enumerate(self._scopes) if is_class]
            if classes:
                self._use(".".join([*(s[0] for s in self._scopes[: classes[-1] + 1]), node.attr]))
        self.generic_visit(node)

    @property
    def _place(self) -> str:
        return ".".join(name for name, _ in self._scopes)

    def _resolved(self, name: str) -> str:
        """The function that a name means here: in the nearest scope that is no class."""
        for n in range(len(self._scopes), -1, -1):
            if n and self._scopes[n - 1][1]:
                continue
            place = ".".join([*(each for each, _ in self._scopes[:n]), name])
            if place in self._known:
                return place
        return ""

    def _use(self, name: str) -> None:
        if not self._is_collecting and name in self._known and self._scopes:
            self.uses.setdefault(self._place, set()).add(name)


def _own_names(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Parameters and variables of a function, which hide functions of the same name."""
    arguments = node.args
    names = {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    names |= {each.arg for each in (arguments.vararg, arguments.kwarg) if each}
    return names | {
        each.id
        for part in node.body
        for each in ast.walk(part)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }


def recursive(tree: ast.Module) -> set[str]:
    """The functions of a module that call themselves, directly or by others of it."""
    uses = _Functions(tree).uses
    found = set()
    for name in uses:
        reached: set[str] = set()
        waiting = [*uses[name]]
        while waiting:
            other = waiting.pop()
            if other not in reached:
                reached.add(other)
                waiting += uses.get(other, ())
        if name in reached:
            found.add(name)
    return found


def of_library(tree: ast.Module) -> set[str]:
    """Names of _LIBRARY that a module calls or is given."""
    used = {_dotted(each) for each in ast.walk(tree) if isinstance(each, ast.Attribute | ast.Name)}
    imported = {
        f"from {node.module} import {each.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in ("os", "json", "tomllib")
        for each in node.names
        if f"{node.module}.{each.name}" in _LIBRARY
    }
    return imported | {
        name for name in _LIBRARY if any(each == name or each.endswith(f".{name}") for each in used)
    }


def _dotted(node: ast.Attribute | ast.Name) -> str:
    """`a.b` of the last two parts of a name; `.b` behind anything else."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{node.value.id if isinstance(node.value, ast.Name) else ''}.{node.attr}"


@pytest.mark.slow
def test_functions_that_call_themselves_are_listed_with_a_reason():
    found, _ = used()
    assert sorted(found - {*RECURSIVE}) == []
    assert sorted({*RECURSIVE} - found) == []


@pytest.mark.slow
def test_functions_of_the_library_that_call_themselves_are_listed_with_a_reason():
    _, found = used()
    assert sorted(found - {*LIBRARY}) == []
    assert sorted({*LIBRARY} - found) == []


MUTUAL = """
class Tree:
    def size(self):
        return sum(map(self.one, self.parts))

    def one(self, part):
        return part.size or self.size()

    def plain(self, size):
        return size


def outer(value):
    def inner(each):
        return inner(each[0])

    return inner(value)


def first(value):
    return second(value)


def second(value):
    return [first(each) for each in value]


def third(first):
    return first(second)
"""


def test_functions_that_call_each_other_are_seen():
    found = recursive(ast.parse(MUTUAL))
    assert found == {"Tree.size", "Tree.one", "outer.inner", "first", "second"}


def test_names_of_the_library_are_seen_however_they_are_imported():
    text = "import os, shutil\nfrom json import loads\nfor a in os.walk('/'): shutil.rmtree(a)\n"
    assert of_library(ast.parse(text)) == {"os.walk", "rmtree", "from json import loads"}
    assert of_library(ast.parse("tree.walk(), map(json.loads, texts)")) == {"json.loads"}
