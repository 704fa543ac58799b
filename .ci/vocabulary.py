"""Words that are not to come back: names and sentences that a systems engineer would not search for.

Run `python .ci/vocabulary.py`; it prints one line per finding and exits 1 when there is any. Checked are the names
that Python code defines (modules, classes, functions, parameters, attributes, variables), string literals, docstrings
and comments of `src`, `tests` and `bench`, and the lines of every document. `IDENTIFIERS` are refused as a part of a
name, `PHRASES` in sentences. Files in which they may stand: `ACCEPTED`.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

from hygiene import files, report

IDENTIFIERS = {
    "told": "say what it is: reported, message, reason, observer",
    "tell": "notify, print, report",
    "cure": "hint",
    "mend": "fix",
    "knob": "tunable",
    "trouble": "reason, problem, warning",
    "shortfall": "missed target",
    "remark": "note",
    "card": "interface, NIC model",
    "cable": "veth pair",
}
"""Part of a name -> what to write instead."""

PHRASES = {
    r"told": "reported, printed, notified: say who does what",
    r"knobs?": "tunable",
    r"cures?": "hint",
    r"to do:": "hint:",
    r"shortfalls?": "missed target",
    r"remarks?": "note (information) or warning (a figure is affected)",
    r"(?:network )?cards?": "network interface, NIC model",
    r"cables?": "veth pair",
    r"left behind": "leaked",
    r"would settle": "would decide",
}
"""Regular expression of whole words -> what to write instead."""

ACCEPTED = {
    ".ci/vocabulary.py": "this list",
    "tests/unit/fixtures/": "outputs of tools, verbatim",
}
"""Beginning of a path -> why such words may stand there."""

TITLES = ("Tuning 10Gb network cards on Linux",)
"""Titles of sources, which keep their words."""

_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_ANY = re.compile(
    rf"(?<![a-z])(?i:{'|'.join((*IDENTIFIERS, *PHRASES))})(?![a-z])"
    rf"|(?:{'|'.join(map(str.capitalize, IDENTIFIERS))})(?![a-z])"
)
"""In every text with such a word."""
_PHRASES = [
    (re.compile(rf"(?<![\w.'-]){words}(?![\w-])", re.IGNORECASE), hint)
    for words, hint in PHRASES.items()
]


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of whatever the code defines or passes by keyword."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.value.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def bad_names(path: str, found: Iterator[tuple[int, str]]) -> Iterator[str]:
    """Names with a part that is not the field's."""
    for line, name in found:
        for part in _PARTS.findall(name):
            if hint := IDENTIFIERS.get(part.lower()):
                yield f"{path}:{line}: the name {name}: write {hint}"


def sentences(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every string, docstring and comment."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            for offset, line in enumerate(token.string.splitlines()):
                yield token.start[0] + offset, line


def bad_sentences(path: str, lines: Iterator[tuple[int, str]]) -> Iterator[str]:
    """Lines with a word that is not the field's."""
    for number, text in lines:
        line = text
        for title in TITLES:
            line = line.replace(title, "")
        for pattern, hint in _PHRASES:
            if match := pattern.search(line):
                yield f"{path}:{number}: {match[0]!r}: write {hint}"


def findings(root: Path) -> Iterator[str]:
    """Everything in the files of a checkout that the field has another word for."""
    for path in files(root, tuple(ACCEPTED)):
        if not path.endswith((".py", ".md", ".toml")):
            continue
        text = (root / path).read_text()
        if path.endswith(".py") and _ANY.search(f"{path}\n{text}"):
            yield from bad_names(path, iter([(1, Path(path).stem), *names(ast.parse(text))]))
            yield from bad_sentences(path, sentences(text))
        elif path.endswith((".md", ".toml")) and _ANY.search(text):
            yield from bad_sentences(path, iter(enumerate(text.splitlines(), 1)))


if __name__ == "__main__":
    sys.exit(report(findings(Path(__file__).resolve().parents[1])))
