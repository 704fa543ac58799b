"""Python shown in the documentation, as modules: a page's first block of that language is a whole module."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).resolve().parents[1] / "docs"


def text_of(page: str, language: str) -> str:
    """The first block of a language in docs/PAGE."""
    block = re.search(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    assert block, f"{page} shows no {language}"
    return block[1]


def module_of(page: str, name: str) -> ModuleType:
    """The example of docs/PAGE, executed under a module name of its own."""
    module = ModuleType(name)
    sys.modules[name] = module  # pydantic resolves annotations through it
    exec(compile(text_of(page, "python"), f"docs/{page}", "exec"), module.__dict__)
    return module
