"""Directories in one another, deeper than any path reaches and Python may call itself."""

import os
from pathlib import Path


def nest(top: Path, levels: int, name: str = "d") -> None:
    """Make a directory with so many in one another, and a file in the deepest."""
    top.mkdir()
    at = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)
