"""Keeps what nested machines said, as proof: files in the directory that VTAX_NESTED_OUTPUT names, if it does."""

from __future__ import annotations

import os
from pathlib import Path


def keep(name: str, text: str) -> None:
    """Write a text down, and show it with the test's output."""
    print(text)
    if directory := os.environ.get("VTAX_NESTED_OUTPUT"):
        Path(directory).mkdir(parents=True, exist_ok=True)
        Path(directory, name).write_text(text)
