"""Names of packages by the host's distribution, and the command that installs them: hints for programs it lacks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from vtax.messages import Note

TABLE = Path(__file__).with_name("packages.txt")
OS_RELEASE = Path("/etc/os-release")
FAMILIES: Mapping[str, tuple[str, int]] = {
    "debian": ("apt install", 0),
    "ubuntu": ("apt install", 0),
    "suse": ("zypper install", 2),
    "fedora": ("dnf install", 1),
    "rhel": ("dnf install", 1),
    "centos": ("dnf install", 1),
}
"""A word of ID or ID_LIKE -> command, column of TABLE. quickstart's `find_family` knows the same."""


def packages_hint(*packages: str) -> str:
    """Return how to install packages on this host: a command, and the packages that its distribution does not have.

    packages: by their names in Debian.
    """
    try:
        return hint_for(OS_RELEASE.read_text(encoding="utf-8", errors="replace"), *packages)
    except OSError:
        return hint_for("", *packages)


def hint_for(os_release: str, *packages: str) -> str:
    """Return the hint of `packages_hint` for a host with this text of os-release(5)."""
    package_names = [name for name in dict.fromkeys(packages) if name]
    family = family_of(os_release)
    if not package_names:
        return Note("hint-no-package")
    if family is None:
        return Note("hint-packages-of-debian", names=tuple(package_names))
    command, column = family
    names: dict[str, None] = {}
    absent = []
    for package in package_names:
        equivalents = names_of(package, column)
        names |= dict.fromkeys(equivalents)
        if not equivalents:
            absent.append(package)
    if not names:
        return Note("hint-not-packaged", names=tuple(absent))
    install = f"{command} {' '.join(names)}"
    if not absent:
        return install
    return Note("hint-packaged-in-part", install=install, names=tuple(absent))


def family_of(os_release: str) -> tuple[str, int] | None:
    """Return the row of FAMILIES of a distribution: by its ID, else by the first of ID_LIKE that is known."""
    fields = {}
    for line in os_release.splitlines():
        name, equals, value = line.partition("=")
        if equals and name.strip() in ("ID", "ID_LIKE"):
            fields[name.strip()] = value.strip().strip("\"'")
    for word in f"{fields.get('ID', '')} {fields.get('ID_LIKE', '')}".lower().split():
        if word in FAMILIES:
            return FAMILIES[word]
    return None


def names_of(package: str, column: int) -> tuple[str, ...]:
    """Return the packages of a family in place of one of Debian; nothing where it has none."""
    row = table().get(package)
    names = row[column] if row else package  # one of a plug-in: the same everywhere
    return () if names == "-" else tuple(names.split())


@cache
def table() -> Mapping[str, tuple[str, ...]]:
    """Return the rows of TABLE by Debian's name."""
    rows = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            row = tuple(line.split("|"))
            rows[row[0]] = row
    return rows
