"""Run the program of the image, or the one given, with the environment, directory and user of the image."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

_FIELDS = 6  # of a user in passwd(5) that are read


def ids_of(user: str) -> tuple[int, int, str]:
    """Return user, group and home of `USER[:GROUP]`, by name or number; ends the program for an unknown one."""
    name, _, group = user.partition(":")
    lines = [line.split(":") for line in _lines("/etc/passwd")]
    found = next((each for each in lines if len(each) > _FIELDS - 1 and name in (each[0], each[2])), None)
    if found is None and not name.isdigit():
        sys.exit(f"the image has no user {name}")
    uid, gid, home = (int(found[2]), int(found[3]), found[5]) if found else (int(name), 0, "/")
    if group.isdigit():
        return uid, int(group), home
    if group:
        of_group = next((each for each in map(_split, _lines("/etc/group")) if each[0] == group), None)
        if of_group is None:
            sys.exit(f"the image has no group {group}")
        gid = int(of_group[2])
    return uid, gid, home


def _split(line: str) -> list[str]:
    return line.split(":")


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return []


def main() -> None:
    """Become the program."""
    settings = json.loads(Path("/.vtax/entry.json").read_text())
    environment = {**os.environ, **settings["environment"]}
    argv = sys.argv[1:] or settings["entry"]
    if argv == ["--vtax-version"]:
        print(settings["version"])
        return
    if not argv:
        sys.exit("the image names no program to run")
    os.chdir(settings["directory"])
    if settings["user"] not in ("", "0", "root"):
        uid, gid, environment["HOME"] = ids_of(settings["user"])
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    try:
        os.execvpe(argv[0], argv, environment)
    except OSError as error:
        sys.exit(f"{argv[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
