"""Puts files that could not be removed aside, in `VTAX_HOME/left`: there they block nothing until `vtax clean` can.

A guest may leave files that even root cannot remove, or not soon: with something mounted below, on a file system that
has become read-only, too many for the time of one removal. Were it to stay where it is, no further run would start.
"""

from __future__ import annotations

import errno
import secrets
import shlex
from pathlib import Path

from vtax.errors import VtaxError
from vtax.host.mounts import mounts_below
from vtax.host.removal import NotRemoved, remove_tree
from vtax.host.trust import private_directory

LEFT = "left"
"""Its name in a home."""


def put_aside(path: Path, directory: Path, problem: NotRemoved) -> str:
    """Move a tree that could not be removed into the directory; returns one line that says so, and how to remove it.

    A tree that cannot be moved either, as something is mounted on it, stays, and a link in the directory leads to it.
    path: of the tree.
    directory: `left` of the home.
    problem: why it could not be removed.
    Raises VtaxError where the directory cannot be written.
    """
    target = directory / f"{path.name}-{secrets.token_hex(3)}"
    try:
        private_directory(directory)
        try:
            path.rename(target)
        except OSError:
            target.symlink_to(path.absolute())
            target = path
    except (OSError, VtaxError) as error:
        raise VtaxError(str(problem), where=str(path), hint=_command(path, problem)) from error
    return _line(target, problem)


def remove_left(directory: Path) -> tuple[list[str], list[str]]:
    """Remove the trees that were put aside; return (paths of those that are gone now, a line for each that stays)."""
    removed_paths: list[str] = []
    stays: list[str] = []
    if directory.exists():
        private_directory(directory)
        for entry in sorted(directory.iterdir()):
            path = entry.readlink() if entry.is_symlink() else entry
            try:
                if remove_tree(path):
                    removed_paths.append(str(path))
                if path != entry:
                    entry.unlink()
            except NotRemoved as problem:
                stays.append(_line(path, problem))
            except OSError as problem:
                stays.append(_line(path, NotRemoved(problem.errno, problem.strerror, str(path))))
    return removed_paths, stays


def _line(path: Path, problem: NotRemoved) -> str:
    """Return where a tree is, why it could not be removed, and the command that removes it."""
    return f"{path}: {problem} (to remove it: {_command(path, problem)})"


def _command(path: Path, problem: NotRemoved) -> str:
    quoted = shlex.quote(str(path))
    first = [f"umount {shlex.quote(point)}" for point in mounts_below(path)]
    if problem.errno == errno.EPERM:
        first.append(f"chattr -R -f -ia {quoted}")
    return " && ".join([*first, f"rm -rf --one-file-system {quoted}"])
