"""Keeps what nested machines said, as proof: files in the directory that VTAX_NESTED_OUTPUT names, if it does."""

from __future__ import annotations

import os
from pathlib import Path


def keep(name: str, text: str, *, append: bool = False) -> None:
    """Write a text down, and show it with the test's output. append: after what the file has."""
    print(text)
    if directory := os.environ.get("VTAX_NESTED_OUTPUT"):
        Path(directory).mkdir(parents=True, exist_ok=True)
        with Path(directory, name).open("a" if append else "w") as file:
            file.write(text)


def keep_file(name: str, content: bytes) -> None:
    """Write down a file of the machine, which is not shown."""
    if directory := os.environ.get("VTAX_NESTED_OUTPUT"):
        Path(directory).mkdir(parents=True, exist_ok=True)
        Path(directory, name).write_bytes(content)
