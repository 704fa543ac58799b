"""Checks that directories are trusted: no other user owns, can write to, or can replace them.

What lies in a home is executed: guests run an image's programs, and `vtax clean` the commands of a journal. A home is
therefore used only where every directory on the way to it, symbolic links included, belongs to root or to the user of
this process (or to the user of `sudo`, who has asked for it), and nobody else may write it. A directory with the
sticky bit on the way, such as /tmp, lets others add names, not replace ours. With an access control list the group
bits of a mode are its mask, the most that it grants anybody (acl(5)).
"""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from vtax.errors import BadInput

PRIVATE_MODE = 0o700
_US = os.geteuid()  # it never changes while a process of vtax lives
_MAX_LINKS = 40  # as many as the kernel follows (path_resolution(7))
_ROOT_GROUP = 0
_ACCESS_LIST = "system.posix_acl_access"


def refuse_foreign(path: Path) -> None:
    """Raise BadInput when other users own or can write to a directory or its ancestors; it may be missing."""
    at, names, links = Path("/"), list(path.absolute().parts[1:]), 0
    _refuse_directory(at, at.lstat(), final=not names)
    while names:
        name = names.pop(0)
        at = at.parent if name == ".." else at / name
        try:
            status = at.lstat()
        except FileNotFoundError:
            return
        except OSError as error:
            raise BadInput(f"{at} cannot be examined: {error.strerror}", where=str(path)) from error
        if not stat.S_ISLNK(status.st_mode):
            _refuse_directory(at, status, final=not names)
            continue
        _refuse_owner(at, status)
        links += 1
        if links > _MAX_LINKS:
            raise BadInput("too many symbolic links", where=str(path))
        target = at.readlink()
        at = Path("/") if target.is_absolute() else at.parent
        names = [part for part in target.parts if part != "/"] + names


def private_directory(path: Path) -> None:
    """Create a directory that only this user can enter, or restrict an existing one.

    Raises BadInput when it belongs to somebody else, or when its mode cannot be set.
    """
    refuse_foreign(path)
    try:
        path.mkdir(mode=PRIVATE_MODE, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise BadInput(
            f"the directory cannot be made: {error.strerror}",
            where=str(path),
            hint="free some space, or name another directory in VTAX_HOME",
        ) from error
    try:
        status = os.fstat(descriptor)
        if not is_this_users(status):
            raise _foreign(path, status)
        if stat.S_IMODE(status.st_mode) != PRIVATE_MODE:
            os.fchmod(descriptor, PRIVATE_MODE)
    except OSError as error:
        raise BadInput(
            f"other users can enter the directory, and its mode cannot be changed: {error.strerror}",
            where=str(path),
            hint=f"chmod {PRIVATE_MODE:o} {path}, or name another directory in VTAX_HOME",
        ) from error
    finally:
        os.close(descriptor)


def is_this_users(status: os.stat_result) -> bool:
    """Return whether a file belongs to the user of this process."""
    return status.st_uid == _US


def is_trusted_file(path: Path, status: os.stat_result) -> bool:
    """Return whether it is a regular file of this user's that nobody else may write."""
    return (
        stat.S_ISREG(status.st_mode)
        and is_this_users(status)
        and not _others_may_write(path, status)
    )


def refuse_file_of_others(path: Path, status: os.stat_result) -> None:
    """Raise BadInput for a file that others than root, this user and the user of sudo own or may write."""
    if status.st_uid not in _trusted_users() or _others_may_write(path, status):
        raise BadInput(
            f"other users may change {path}, and so decide what root runs",
            hint=f"chmod go-w {path}, and own it yourself",
        )


def _others_may_write(path: Path, status: os.stat_result) -> bool:
    group = status.st_mode & stat.S_IWGRP and (
        status.st_gid != _ROOT_GROUP or _has_access_list(path)
    )
    return bool(group or status.st_mode & stat.S_IWOTH)


def _has_access_list(path: Path) -> bool:
    try:
        return bool(os.getxattr(path, _ACCESS_LIST, follow_symlinks=False))
    except OSError:  # none, or a file system without them
        return False


def _refuse_directory(path: Path, status: os.stat_result, *, final: bool) -> None:
    _refuse_owner(path, status)
    if _others_may_write(path, status) and (final or not status.st_mode & stat.S_ISVTX):
        raise BadInput(
            f"other users may write to {path}, and vtax executes files from it",
            where="VTAX_HOME",
            hint=f"chmod go-w {path}, or name another directory in VTAX_HOME",
        )


def _refuse_owner(path: Path, status: os.stat_result) -> None:
    if status.st_uid not in _trusted_users():
        raise _foreign(path, status)


def _trusted_users() -> set[int]:
    trusted = {0, _US}
    sudoer = os.environ.get("SUDO_UID", "")
    if _US == 0 and sudoer.isdecimal():
        trusted.add(int(sudoer))
    return trusted


def _foreign(path: Path, status: os.stat_result) -> BadInput:
    try:
        owner = pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        owner = str(status.st_uid)
    sudo_hint = "run vtax with sudo, or " if status.st_uid == 0 else ""
    return BadInput(
        f"{path} belongs to user {owner}, and vtax would execute files from it",
        where="VTAX_HOME",
        hint=f"{sudo_hint}name a directory of your own in VTAX_HOME",
    )
