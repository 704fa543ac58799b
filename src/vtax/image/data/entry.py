"""Run the program of the image, or the one given, with the environment, directory and user of the image."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

_FIELDS = 6  # of a user in passwd(5) that are read
_GROUP_FIELDS = 4  # of a group in group(5)


def ids_of(user: str) -> tuple[int, int, list[int], str]:
    """Return user, group, further groups and home of `USER[:GROUP]`; ends the program for an unknown one.

    As in a container (OCI Image Format Specification, config.md): a group that is given stands alone.
    """
    name, _, group = user.partition(":")
    lines = [line.split(":") for line in _lines("/etc/passwd")]
    found = next(
        (each for each in lines if len(each) > _FIELDS - 1 and name in (each[0], each[2])), None
    )
    if found is None and not name.isdigit():
        sys.exit(f"the image has no user {name}")
    uid, gid, home = (int(found[2]), int(found[3]), found[5]) if found else (int(name), 0, "/")
    if group.isdigit():
        return uid, int(group), [], home
    listed = [
        each for line in _lines("/etc/group") if len(each := line.split(":")) >= _GROUP_FIELDS
    ]
    if group:
        of_group = next((each for each in listed if each[0] == group), None)
        if of_group is None:
            sys.exit(f"the image has no group {group}")
        return uid, int(of_group[2]), [], home
    member = found[0] if found else ""
    return (
        uid,
        gid,
        [int(each[2]) for each in listed if member and member in each[3].split(",")],
        home,
    )


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return []


def main() -> None:
    """Become the program."""
    settings = json.loads(Path("/.vtax/entry.json").read_text())
    own = {name: value for name, value in settings["environment"].items() if name}
    environment = {**os.environ, **own}
    argv = sys.argv[1:] or settings["entry"]
    if argv == ["--vtax-version"]:
        print(settings["version"])
        return
    if not argv:
        sys.exit("the image names no program to run")
    try:
        Path(settings["directory"]).mkdir(parents=True, exist_ok=True)  # as runc does
        os.chdir(settings["directory"])
        if settings["user"] not in ("", "0", "root"):
            uid, gid, groups, home = ids_of(settings["user"])
            environment["HOME"] = own.get("HOME", home)
            os.setgroups(groups)
            os.setgid(gid)
            os.setuid(uid)
    except (OSError, ValueError, OverflowError) as error:
        sys.exit(f"the directory or the user of the image: {error}")
    try:
        os.execvpe(argv[0], argv, environment)
    except OSError as error:
        sys.exit(f"{argv[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
