"""Finds what the command line says: help, lines and tables of commands, and errors of every package.

These texts are plain English where they arise; `vtax.cli.language` puts them into the reader's language by the
templates that are found here, where an f-string's expressions become placeholders.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

WHOLE = (
    "cli/*.py",
    "doctor/*.py",
    "runner/disk_room.py",
    "runner/consent.py",
    "host/lock.py",
    "study/check.py",
    "study/claim_names.py",
    "study/refusals.py",
    "conformance/*.py",
)
"""Files in which every text is said, beside those of `msg`, of options and of docstrings."""
_LEFT_OUT = re.compile(
    r"conformance/(sample|fillings)|counters/|guest/|cli/(commands|usage)|platforms/(?!registry|ssh)"
    r"|network/(?!registry|settings|topology|uplink|wire)"
)
"""What people who only measure do not meet, what stands in the catalogue of messages, and texts for programs."""
_OTHER_CALLS = {
    "msg",
    "plural",
    "Means",
    "option",
    "argument",
    "command",
    "compile",
    "Note",
    "execute",
    "getLogger",
}
_ERRORS = {
    "BadInput",
    "NotFound",
    "Busy",
    "Refused",
    "StoreError",
    "StoreBusy",
    "ImageError",
    "VtaxError",
    "NetworkError",
    "disagreement",
}
_CHECKED = ("study/", "benchmarks/", "network/")
"""Packages whose ValueErrors are of a study, and in which a `what` or `problem` is part of an error."""
_TABLES = {"print_table", "print_keys"}
_WORDS = re.compile(r"[A-Za-z]{2,}\S* +[a-z]|[a-z]{2,} \{|\} [a-z]{2,}")
_CODE = re.compile(r"\x00|^sh: |; (exit|while|echo) |^[A-Z_]+$|SELECT |\\n|^\W*$|\[\[?\w|=\{|\]\(")

_COMMAND = re.compile(
    r" *(sudo )?(vtax [a-z]+( [a-z]+)?( (\{\w+\}|[A-Z]+|--\S+))*"
    r"|(apt-get install|apt install|pip install|echo|sysctl|systemctl|modprobe)( [^\s,;]+)*)"
)


def texts(source: Path) -> Iterator[tuple[str, Path, int]]:
    """(template, file, line) of every text. source: the directory of the package."""
    for path in sorted(source.rglob("*.py")):
        name = path.relative_to(source).as_posix()
        if _LEFT_OUT.match(name):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        is_whole = any(path.match(f"vtax/{pattern}") for pattern in WHOLE)
        errors = _ERRORS | {"ValueError"} if name.startswith(_CHECKED) else _ERRORS
        names = {"hint", "what", "problem"} if name.startswith(_CHECKED) else {"hint"}
        headings = _headings(tree)
        for node in [*(_texts(tree) if is_whole else _of_errors(tree, errors, names)), *headings]:
            template = template_of(node)
            if is_spoken(template) or node in headings:
                yield template, path, node.lineno


def of_commands() -> Iterator[tuple[str, str]]:
    """(text, command) of every help text."""
    import click

    from vtax.benchmarks.registry import about, benchmarks
    from vtax.cli.commands import COMMANDS, SUBJECTS
    from vtax.cli.language import COUNTED, EXTRA, FORMS, LABELS, OF_OTHERS, paragraphs
    from vtax.cli.main import group
    from vtax.cli.usage import OF_CLICK
    from vtax.network.registry import topologies
    from vtax.platforms.registry import drivers
    from vtax.study.drafts import QUESTIONS
    from vtax.study.keys import keys

    words = (
        *LABELS,
        *COUNTED,
        *FORMS,
        *OF_OTHERS,
        *OF_CLICK,
        *QUESTIONS.values(),
        *SUBJECTS,
        *COMMANDS.values(),
    )
    yield from ((text, "vtax") for text in words)
    things = [*drivers().values(), *topologies().values()]
    yield from ((each.summary, each.name) for each in things)
    for benchmark in benchmarks().values():
        yield from ((text, benchmark.name) for text in (benchmark.title, about(benchmark)))
    models = [(b.name, b.Parameters) for b in benchmarks().values()]
    models += [(t.name, t.Settings) for t in topologies().values()]
    models += [(d.name, d.Options) for d in drivers().values()]
    yield from ((key.meaning, name) for name, model in models for key in keys(model))
    commands = {name: group.get_command(click.Context(group), name) for name in COMMANDS}
    for name, command in [("vtax", group), *commands.items()]:
        below = getattr(command, "commands", {}).values() if name != "vtax" else ()
        for each in (
            command,
            *below,
            *command.params,
            *(param for one in below for param in one.params),
        ):
            for text in (getattr(each, key, None) for key in ("short_help", "help", "epilog")):
                yield from (
                    (part, name)
                    for part in paragraphs((text or "").partition(EXTRA)[0])
                    if part and not part.startswith("\b")
                )


def is_spoken(template: str) -> bool:
    """Whether a template has words for people."""
    return (
        bool(_WORDS.search(template))
        and not _CODE.search(template)
        and not _COMMAND.fullmatch(template)
    )


def template_of(node: ast.expr) -> str:
    """Return the text of a node, with a placeholder for each expression."""
    if isinstance(node, ast.Constant):
        return str(node.value) if "{" not in str(node.value) else ""
    found, seen = "", dict[str, int]()
    for part in node.values if isinstance(node, ast.JoinedStr) else ():
        if isinstance(part, ast.FormattedValue):
            name = _name(part.value).lstrip("_") or "value"
            seen[name] = seen.get(name, 0) + 1
            found += f"{{{name}{seen[name] if seen[name] > 1 else ''}}}"
        elif isinstance(part, ast.Constant):
            found += str(part.value)
    return found


def _of_errors(tree: ast.AST, errors: set[str], names: set[str]) -> Iterator[ast.expr]:
    """Texts of what is raised. names: of the variables that hold parts of them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) in errors:
            for argument in [*node.args, *(k for k in node.keywords if k.arg == "hint")]:
                yield from _texts(argument)
        elif isinstance(node, ast.FunctionDef) and ("hint" in node.name or "problem" in node.name):
            for statement in node.body:
                yield from _texts(statement)
        elif isinstance(node, ast.Assign | ast.keyword) and any(
            name in _target(node) for name in names
        ):
            yield from _texts(node.value)


def _target(node: ast.Assign | ast.keyword) -> str:
    return (
        node.arg or ""
        if isinstance(node, ast.keyword)
        else " ".join(map(_name, node.targets)).lower()
    )


def _headings(tree: ast.AST) -> list[ast.expr]:
    """Headings of tables, which may be single words."""
    calls = (
        n for n in ast.walk(tree) if isinstance(n, ast.Call) and _name(n.func) in _TABLES and n.args
    )
    return [
        e
        for call in calls
        for e in getattr(call.args[0], "elts", [call.args[0]])
        if isinstance(e, ast.Constant)
    ]


def _texts(node: ast.AST) -> Iterator[ast.expr]:
    """Texts within a node, of an f-string the whole and what its expressions hold."""
    if isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    ):
        yield node
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):  # a docstring
        return
    if isinstance(node, ast.Call) and _name(node.func) in _OTHER_CALLS:
        return
    if isinstance(node, ast.keyword) and node.arg in ("where", "help", "metavar"):
        return
    inner = node.body if isinstance(node, ast.FunctionDef) else ast.iter_child_nodes(node)
    for child in inner:
        if not (isinstance(node, ast.JoinedStr) and isinstance(child, ast.Constant)):
            yield from _texts(child)


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call):
        return _name(node.func)
    return ""
