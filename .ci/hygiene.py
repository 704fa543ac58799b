"""Checks what the linters do not: names of classes, docstrings, addresses, stray files, unfinished work, and
traces of a developer's machine.

Run `python .ci/hygiene.py`; it prints one line per finding and exits 1 when there is any.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

# Hosts a file may name: of standards, schemas, licences, papers and examples. No package registry's.
HOSTS = frozenset(
    {
        *("www.apache.org", "www.w3.org", "json-schema.org", "doi.org", "www.rfc-editor.org"),
        *(
            "keepachangelog.com",
            "semver.org",
            "www.cs.virginia.edu",
            "example.org",
            "vega.github.io",
        ),
        *("golang.org", "bencher.dev", "w3id.org", "schema.org", "creativecommons.org"),
    }
)
_URL = re.compile(r"\b(?:https?|ftp|git|ssh)://([A-Za-z0-9.-]+\.[a-z]{2,})")
_BARE_HOST = re.compile(r"(?<![\w@./-])((?:[a-z0-9-]+\.)+(?:org|com|net))(?![\w.(-])")
_UNFINISHED = re.compile(r"\b(?:TO" + "DO|FIX" + r"ME|XX" + r"X)\b")
_STIFF = re.compile(r"(?:What|Of|That) ")
_SCRATCH = re.compile(r"/tmp/[a-z]/")

_SUSPICIOUS = re.compile(rf"://|\.(?:org|com|net)\b|{_UNFINISHED.pattern}|{_SCRATCH.pattern}")
"""In every text with a forbidden line but one that names the checkout."""
parsed = lru_cache(1)(ast.parse)

ROOT_FILES = frozenset(
    {
        *(
            ".git-blame-ignore-revs",
            ".pre-commit-config.yaml",
            ".gitignore",
            "CHANGELOG.md",
            "CITATION.cff",
            "CONTRIBUTING.md",
            "LICENSE",
            "Makefile",
        ),
        *("README.md", "README.pt-BR.md"),
        *("pyproject.toml", "quickstart", "requirements.lock", "requirements-dev.lock"),
    }
)

# Real tool outputs and licence texts are kept as they are.
_VERBATIM = ("tests/unit/fixtures/", "LICENSE")


def stiff_docstrings(path: str, source: str) -> Iterator[str]:
    """Docstrings that begin neither with a verb nor with the thing."""
    for node in ast.walk(parsed(source)):
        text = node.value if isinstance(node, ast.Expr) else None
        if (
            isinstance(text, ast.Constant)
            and isinstance(text.value, str)
            and _STIFF.match(text.value)
        ):
            yield f"{path}:{node.lineno}: {text.value.split()[0]!r}: begin with a verb, or with the thing"


def repeated_classes(path: str, source: str, known: dict[str, str]) -> Iterator[str]:
    """Classes of a name that a class elsewhere has. known: name -> where it was seen, to which these are added."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.ClassDef) and known.setdefault(node.name, path) != path:
            yield f"{path}:{node.lineno}: a class {node.name} is in {known[node.name]}, too"


def forbidden_text(path: str, text: str, checkout: str) -> Iterator[str]:
    """Addresses outside HOSTS, unfinished work, and paths of the machine it was written on."""
    if checkout not in text and not _SUSPICIOUS.search(text):
        return
    for number, line in enumerate(text.splitlines(), 1):
        for host in {*_URL.findall(line), *_BARE_HOST.findall(line)} - HOSTS:
            if not host.endswith(".example"):  # reserved by RFC 2606
                yield f"{path}:{number}: names the host {host}"
        if tag := _UNFINISHED.search(line):
            yield f"{path}:{number}: {tag[0]}: finish it, or file an issue"
        if checkout in line or _SCRATCH.search(line):
            yield f"{path}:{number}: names a path of one machine"


def stray_file(path: str) -> Iterator[str]:
    """Return a file in the checkout's root that does not belong there, such as an output committed by mistake."""
    if "/" not in path and path not in ROOT_FILES:
        yield f"{path}: not one of the files in the root; remove it, or add it to ROOT_FILES"


def files(root: Path, skipped: tuple[str, ...]) -> Iterator[str]:
    """Paths below root that git knows, or would know. skipped: beginnings of paths to leave out."""
    listed = subprocess.run(
        [
            "git",
            "-c",
            f"safe.directory={root}",
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
        ],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    for path in listed.stdout.splitlines():
        if not path.startswith(skipped) and (root / path).is_file():
            yield path


def findings(root: Path) -> Iterator[str]:
    """Everything wrong in the files of a checkout."""
    classes: dict[str, str] = {}
    for path in files(root, _VERBATIM):
        yield from stray_file(path)
        try:
            text = (root / path).read_text()
        except UnicodeDecodeError:
            continue
        if path.endswith(".py") and path.startswith("src/"):
            yield from stiff_docstrings(path, text)
            yield from repeated_classes(path, text, classes)
        yield from forbidden_text(path, text, str(root))


def report(found: Iterator[str]) -> int:
    """Print findings; 1 when there are any."""
    lines = list(found)
    for line in lines:
        print(line)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(report(findings(Path(__file__).resolve().parents[1])))
