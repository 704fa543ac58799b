"""Walks trees of files, whoever made them, without recursion: os.walk, os.fwalk and Path.rglob of older Pythons call
themselves for each level."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path


def walk(
    top: Path, *, in_order: bool = False, is_strict: bool = True
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the name, relative to top, and the lstat of everything below a directory. No link is followed.

    top: the directory.
    in_order: sort the names within a directory, which are in memory at once then.
    is_strict: raise OSError for a directory that cannot be read, such as one whose path is too long; else pass it over.
    """
    directories = [""]
    while directories:
        directory = directories.pop()
        try:
            with os.scandir(top / directory) as entries:
                ordered_entries: Iterable[os.DirEntry[str]] = entries
                if in_order:
                    ordered_entries = sorted(entries, key=lambda entry: entry.name)
                for entry in ordered_entries:
                    path = f"{directory}/{entry.name}" if directory else entry.name
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        directories.append(path)
                    yield path, status
        except OSError:
            if is_strict:
                raise
