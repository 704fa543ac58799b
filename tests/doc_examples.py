"""What the documentation shows: its blocks, its commands, and its Python as modules.

A page's first block of Python is a whole module.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
DOCS = ROOT / "docs"


def blocks(language: str) -> list[tuple[str, str]]:
    return [
        (f"{page.name}:{page.read_text()[: match.start()].count(chr(10)) + 1}", match[2])
        for page in PAGES
        for match in BLOCK.finditer(page.read_text())
        if match[1] == language
    ]


def commands() -> list[tuple[str, list[str]]]:
    """Every `vtax ...` line of shell blocks and of inline code, without where a shell writes its output."""
    found = []
    for place, text in [*blocks("sh"), *blocks("console"), *blocks("bash")]:
        for line in text.splitlines():
            command = re.sub(r" > \S+", "", line.removeprefix("$ "))
            words = shlex.split(command, comments=True)
            if any(word.endswith("vtax") for word in words[:2]):
                found.append((place, words[1 if words[0].endswith("vtax") else 2 :]))
    for page in PAGES:
        for match in re.finditer(r"`(?:sudo )?vtax ([^`\n]+)`", page.read_text()):
            found.append((page.name, shlex.split(match[1])))
    return found


def text_of(page: str, language: str) -> str:
    """The first block of a language in docs/PAGE."""
    block = re.search(
        rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL
    )
    assert block, f"{page} shows no {language}"
    return block[1]


def module_of(page: str, name: str) -> ModuleType:
    """The example of docs/PAGE, executed under a module name of its own."""
    module = ModuleType(name)
    sys.modules[name] = module  # pydantic resolves annotations through it
    exec(compile(text_of(page, "python"), f"docs/{page}", "exec"), module.__dict__)
    return module
