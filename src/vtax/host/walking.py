"""Walks trees of files, whoever made them, without recursion: os.walk, os.fwalk and Path.rglob of older Pythons call
themselves for each level."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path


def below(
    top: Path, *, in_order: bool = False, is_strict: bool = True
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the name, relative to top, and lstat of everything below a directory. No link is followed.

    in_order: those of one directory by name, which then are in memory at once. is_strict: raise OSError for what
    cannot be read, such as a path that is too long; else leave it out.
    """
    waiting = [""]
    while waiting:
        directory = waiting.pop()
        try:
            with os.scandir(top / directory) as entries:
                for entry in sorted(entries, key=lambda each: each.name) if in_order else entries:
                    path = f"{directory}/{entry.name}" if directory else entry.name
                    seen = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(seen.st_mode):
                        waiting.append(path)
                    yield path, seen
        except OSError:
            if is_strict:
                raise
