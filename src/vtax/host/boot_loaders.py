"""Boot loaders of this host: their entries, which of them this boot is, and the one for the next boot alone.

GRUB (entries in grub.cfg, as Debian's and Ubuntu's update-grub writes them) and systemd-boot. systemd-boot names the
entry that it started. GRUB does not: there an entry is this boot when kernel, its options and the hypervisor are
those of the entry. Nothing here changes the default entry.
"""

from __future__ import annotations

import os
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vtax.errors import BadInput, VtaxError
from vtax.foreign_data import parse_json
from vtax.host.packages import packages_hint
from vtax.host.process import find_program, run
from vtax.host.xen import is_dom0

ROOT = Path("/")
"""Where the host's files are; tests put others there."""
_EFI_VARIABLES = "sys/firmware/efi/efivars"
_VENDOR = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"  # systemd.io/BOOT_LOADER_INTERFACE
_BLOCK = re.compile(r"(menuentry|submenu)\s+(.*)\{$")
_ID = re.compile(r"(?:\$menuentry_id_option|--id[= ])\s*'?([^' ]+)'?")


@dataclass(frozen=True)
class Entry:
    """An entry of a boot loader. id: what the loader is given. kernel, options: as far as they are known (GRUB).

    is_xen: whether the hypervisor Xen starts first.
    """

    id: str
    title: str
    kernel: str = ""
    options: tuple[str, ...] = ()
    is_xen: bool = False


class BootLoader(ABC):
    """A boot loader."""

    name: str

    @abstractmethod
    def entries(self) -> list[Entry]:
        """Return all entries. Raises VtaxError."""

    @abstractmethod
    def set_next(self, entry: Entry) -> None:
        """Boot an entry the next time, and only then. Raises VtaxError."""

    @abstractmethod
    def is_current(self, entry: Entry) -> bool:
        """Return whether the host was booted from this entry, as far as that can be known."""

    def find(self, name: str) -> Entry:
        """Return the entry of an id, or else of a title. Raises BadInput where there is none, or several."""
        entries = self.entries()
        matches = [entry for entry in entries if name == entry.id]
        if not matches:
            matches = [entry for entry in entries if name == entry.title]
        if not matches:
            titles = ", ".join(repr(entry.title) for entry in entries) or "none"
            raise BadInput(f"{self.name} has no entry {name!r}", hint=f"its entries: {titles}")
        if len(matches) > 1:
            ids = ", ".join(repr(entry.id) for entry in matches)
            raise BadInput(
                f"{self.name} has several entries {name!r}", hint=f"name one by its id: {ids}"
            )
        return matches[0]


class Grub(BootLoader):
    """GRUB 2. directory: with grub.cfg."""

    name = "GRUB"

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def entries(self) -> list[Entry]:
        """Return those of grub.cfg; an entry in a submenu has the id `SUBMENU>ENTRY`."""
        return list(_grub_entries(self._configuration().splitlines()))

    def set_next(self, entry: Entry) -> None:
        """By grub-reboot, or what other distributions call it."""
        program = f"{self._directory.name}-reboot"  # grub, or grub2
        if find_program(program) is None:
            raise BadInput(f"{program} is not installed", hint=packages_hint("grub2-common"))
        run([program, entry.id])

    def is_current(self, entry: Entry) -> bool:
        """By hypervisor, kernel and options."""
        if entry.is_xen != is_dom0(ROOT) or not _is_release(entry.kernel, os.uname().release):
            return False
        image, words = "", []
        for word in shlex.split((ROOT / "proc/cmdline").read_text()):
            if word.startswith("BOOT_IMAGE="):
                image = image or word.removeprefix("BOOT_IMAGE=")
            elif word != "placeholder":
                words.append(word)
        options = [word for word in entry.options if word != "placeholder"]
        literal = [word for word in options if "$" not in word]
        if entry.is_xen:  # which adds options of its own
            return set(literal) <= set(words)
        if image and not image.endswith(entry.kernel):
            return False
        if len(literal) < len(entry.options):
            return set(literal) <= set(words)
        return sorted(literal) == sorted(words)

    def find(self, name: str) -> Entry:
        """Return an entry as BootLoader.find does. Raises BadInput too for one that loads no Linux itself.

        Such an entry could not be recognized after the boot.
        """
        entry = super().find(name)
        if not entry.kernel:
            raise BadInput(
                f"GRUB's entry {name!r} names no kernel",
                hint="name an entry that loads Linux, or Xen",
            )
        return entry

    def _configuration(self) -> str:
        try:
            return (self._directory / "grub.cfg").read_text(errors="replace")
        except OSError as error:
            hint = "make the file anew with update-grub"
            if os.geteuid() != 0:
                hint = "run it again with sudo"
            raise BadInput(
                f"the entries of GRUB cannot be read: {error.strerror}",
                where=str(error.filename),
                hint=hint,
            ) from error


class SystemdBoot(BootLoader):
    """systemd-boot, by bootctl(1) and the variables that it leaves to the system."""

    name = "systemd-boot"

    def entries(self) -> list[Entry]:
        """Return those that bootctl lists and that have a file: an array, or one object a line (systemd 252)."""
        try:
            text = run(["bootctl", "list", "--json=short", "--no-pager"]).stdout.strip()
            if not text.startswith("["):
                text = f"[{','.join(text.splitlines())}]"
            documents = parse_json(text)
        except (VtaxError, ValueError) as error:
            hint = "as root, bootctl list --json=short must print them (systemd 250 or later)"
            raise BadInput(
                f"the entries of {self.name} cannot be listed: {error}", hint=hint
            ) from error
        entries = []
        for values in documents:
            identity = str(values.get("id") or "")
            if identity and not identity.startswith("auto-"):
                entries.append(Entry(identity, str(values.get("title") or identity)))
        return entries

    def set_next(self, entry: Entry) -> None:
        """Boot an entry the next time by bootctl set-oneshot."""
        run(["bootctl", "set-oneshot", entry.id])

    def is_current(self, entry: Entry) -> bool:
        """By what systemd-boot says that it started."""
        return _efi_variable("LoaderEntrySelected").lower() == entry.id.lower()


def loader() -> BootLoader:
    """Return the host's boot loader. Raises BadInput when it is unknown."""
    if _efi_variable("LoaderInfo").startswith("systemd-boot"):
        return SystemdBoot()
    for directory in ("boot/grub", "boot/grub2"):
        if (ROOT / directory / "grub.cfg").is_file():
            return Grub(ROOT / directory)
    raise BadInput(
        "this host's boot loader is unknown: there is neither systemd-boot nor a grub.cfg",
        hint="boot by GRUB or systemd-boot; or make a study of each boot, without [[boot]], and use vtax compare",
    )


def current_entry(boot_loader: BootLoader, entries: Sequence[Entry]) -> Entry | None:
    """Return which of some entries the host was booted from; None for none of them. Raises BadInput for several."""
    matches = [entry for entry in entries if boot_loader.is_current(entry)]
    if len(matches) > 1:
        titles = " and ".join(repr(entry.title) for entry in matches)
        raise BadInput(
            f"the entries {titles} look the same: kernel, options and hypervisor are equal",
            hint="give one of them a further kernel option, such as vtax.boot=NAME",
        )
    return matches[0] if matches else None


def _is_release(kernel: str, release: str) -> bool:
    """Return whether a kernel's file may be that of a release: its name must not be that of another release."""
    name = Path(kernel).name
    return not name.startswith("vmlinuz-") or name == f"vmlinuz-{release}"


def _grub_entries(lines: Sequence[str]) -> Iterator[Entry]:
    """Yield the entries of a grub.cfg. Braces of other blocks are counted, so that the end of each is found.

    Of several entries with one id GRUB takes the first. Debian gives the submenus of Linux and of Xen the same id; the
    later submenu is named by its title then.
    """
    stack: list[tuple[str, str, str]] = []  # kind, id, title
    paths: set[str] = set()
    body: list[list[str]] = []
    for line in map(str.strip, lines):
        if line.endswith("{"):
            kind, identity, title = _block(line)
            if kind and _path([*stack, (kind, identity, title)]) in paths:
                identity = title.replace(">", ">>")
            stack.append((kind, identity, title))
            paths.add(_path(stack))
            if kind == "menuentry":
                body = []
        elif line == "}" and stack:
            kind, _, title = stack[-1]
            if kind == "menuentry":
                yield _entry(_path(stack), title, body)
            stack.pop()
        elif stack and stack[-1][0] == "menuentry":
            body.append(_words(line))


def _path(stack: Sequence[tuple[str, str, str]]) -> str:
    """Return what GRUB calls the innermost of nested menus and entries."""
    return ">".join(identity for kind, identity, _ in stack if kind)


def _block(line: str) -> tuple[str, str, str]:
    """Return (kind, id, title) of the block that a line opens; kind is empty for a block that is no menu."""
    match = _BLOCK.match(line)
    if match is None:
        return "", "", ""
    title = (_words(match[2]) or [""])[0]
    identity = _ID.search(match[2])
    return match[1], identity[1] if identity else title.replace(">", ">>"), title


def _entry(identity: str, title: str, body: Sequence[Sequence[str]]) -> Entry:
    commands = [words for words in body if words]
    is_xen = any(words[0].startswith("multiboot") for words in commands)
    loads = r"module2?$" if is_xen else r"linux(16|efi)?$"
    for command, *words in commands:
        arguments = [word for word in words if not (is_xen and word.startswith("--"))]
        if re.match(loads, command) and arguments:
            return Entry(identity, title, arguments[0], tuple(arguments[1:]), is_xen)
    return Entry(identity, title, is_xen=is_xen)


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return line.split()


def _efi_variable(name: str) -> str:
    """Return the text of a variable of the boot loader interface (UTF-16 after 4 bytes of attributes).

    It is empty where there is no such variable.
    """
    try:
        content = (ROOT / _EFI_VARIABLES / f"{name}-{_VENDOR}").read_bytes()
    except OSError:
        return ""
    return content[4:].decode("utf-16-le", errors="replace").rstrip("\0")
