"""Probes: start a guest of a platform, exchange a message with it, stop it, and report the reason of a failure.

Without an image the guest is a tree of three files: `cat` and its libraries from the host.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tarfile
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from vtax.errors import RunInterrupted, VtaxError
from vtax.guest import bootstrap
from vtax.guest.channel import Channel
from vtax.host.emulated_cpu import timeout_factor
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.packages import packages_hint
from vtax.host.process import find_program, run
from vtax.host.resources import Tree
from vtax.image.image import Image
from vtax.messages import Note, at, together
from vtax.platforms import confinement, stdio
from vtax.platforms.base import Driver, GuestSpec, Probe, Resources, RunningGuest
from vtax.platforms.confinement import Isolation

Launch = Callable[[Any, GuestSpec, Sequence[str]], RunningGuest]
DEVICES = Path("/dev")
_VERSION_S = 15.0
_ANSWER_S = 30.0
_MEMORY_BYTES = 256 << 20
_CONSOLE_LIMIT = 1 << 16
_CAT = "/usr/bin/cat"
_HOST_IMAGE = "host-cat"
_MESSAGE = b"vtax is here\n"
_PROGRAM = b"import os\nos.write(WRITE,os.read(READ,64))\n"


def probe(
    launch: Launch,
    options: Any,
    image: Image | None,
    *,
    programs: Mapping[str, str],
    version_argv: Sequence[str | Path] = (),
) -> Probe:
    """Start a guest with launch and exchange a message with it.

    programs: program -> Debian package, all needed.
    version_argv: prints the runtime's version.
    Raises nothing but a request to stop.
    """
    started_at = time.monotonic()

    def probed(available: bool, reason: str = "", hint: str = "", version: str = "") -> Probe:
        return Probe(
            available, reason, hint, version=version, seconds=time.monotonic() - started_at
        )

    if os.geteuid() != 0:
        return probed(False, Note("needs-root"), Note("hint-sudo"))
    missing_programs = missing(programs)
    if missing_programs:
        return probed(False, *missing_programs)
    version = ""
    try:
        if version_argv:
            output = run(version_argv, timeout_s=_VERSION_S * timeout_factor()).stdout
            version = output.strip().splitlines()[0]
        notes = _start_once(launch, options, image)
    except RunInterrupted:
        raise
    except VtaxError as error:
        return probed(False, at(error.what, error.where), error.hint, version)
    except Exception as error:
        return probed(False, f"{type(error).__name__}: {error}", version=version)
    return probed(True, together(notes), version=version)


class LaunchedDriver(Driver):
    """A driver whose guest is a program started here, its standard streams the channel.

    programs, version_argv: see `probe`.
    """

    programs: Mapping[str, str] = {}
    version_argv: Sequence[str] = ()

    @abstractmethod
    def launch_program(self, options: Any, spec: GuestSpec, argv: Sequence[str]) -> RunningGuest:
        """Start a guest whose first program is argv."""

    def needed_programs(self, options: Any) -> Mapping[str, str]:
        """Return program -> Debian package, of all that it needs."""
        return self.programs

    def lacking(self, options: Any) -> tuple[str, str] | None:
        return missing(self.needed_programs(options))

    def isolation(self, options: Any) -> Isolation:
        return "nothing" if getattr(options, "confinement", "default") == "none" else "confined"

    def launch(self, options: Any, spec: GuestSpec, argv: Sequence[str]) -> RunningGuest:
        """Start a guest that confines itself, if it must, before it becomes argv."""
        if self.isolation(options) == "confined" and has_launchers(spec.image):
            argv = confinement.command(spec.privileges, argv)
        return self.launch_program(options, spec, argv)

    def probe(self, options: Any, image: Image | None) -> Probe:
        return probe(
            self.launch,
            options,
            image,
            programs=self.needed_programs(options),
            version_argv=self.version_argv,
        )

    def start(self, options: Any, spec: GuestSpec) -> RunningGuest:
        guest = self.launch(options, spec, bootstrap.argv("-"))
        if self.uses_image:
            stdio.compile_agent(guest.channel, spec.image)  # while the guest's Python starts
        return guest


def unprobed(names: Iterable[str]) -> dict[str, Probe]:
    """Return probes where none are made: every platform counts as available."""
    return {name: Probe(True, Note("not-probed"), is_made=False) for name in names}


def missing(programs: Mapping[str, str]) -> tuple[str, str] | None:
    """Return what is not installed of the programs, and the hint; None when all are. programs: as of `probe`."""
    absent = {}
    for name, package in programs.items():
        if find_program(name) is None:
            absent[name] = package
    for name in absent:
        if "/" in name:
            return Note("no-program", name=name), ""
    return not_installed(absent)


def no_device(name: str) -> Note | None:
    """Return why a device of this host, such as `kvm`, cannot be used; None where it can."""
    device = DEVICES / name
    if not device.exists():
        return Note("no-device", device=device)
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return Note("cannot-open", device=device, error=error.strerror)
    return None


def not_installed(absent: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the reason and the hint for what is absent; None for nothing.

    absent: name -> its Debian package, empty where there is none, or a note where another hint is better.
    """
    if not absent:
        return None
    notes = [hint for hint in absent.values() if isinstance(hint, Note)]
    hint = notes[0] if notes else packages_hint(*absent.values())
    return Note("not-installed", names=tuple(absent), count=len(absent)), hint


def host_image(directory: Path) -> Image:
    """Return an image of nothing but the host's `cat` and its libraries, and the empty file of vtax, as a tree and a tar."""
    image = Image(_HOST_IMAGE, directory)
    for name in ("dev", "proc", "sys", "run", "tmp", "usr", "etc", "scratch"):
        (image.tree / name).mkdir(parents=True)
    hidden = image.tree / bootstrap.HIDDEN.lstrip("/")
    hidden.parent.mkdir()
    hidden.touch(0o444)
    words = run(["ldd", _CAT]).stdout.replace("=>", " ").split()
    libraries = [word for word in words if word.startswith("/")]
    for path in dict.fromkeys([_CAT, *libraries]):
        target = image.tree / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    with tarfile.open(image.archive, "w") as archive:
        archive.add(image.tree, ".")
    return image


def has_launchers(image: Image) -> bool:
    """Whether an image has vtax's own first programs, as all have but that of `host_image`."""
    return image.key != _HOST_IMAGE


def exchange(channel: Channel, *, with_image: bool, timeout_s: float = _ANSWER_S) -> None:
    """Send a message into a guest and read it back. with_image: the bootstrap listens there, not `cat`."""
    deadline = time.monotonic() + timeout_s * timeout_factor()
    if with_image:
        channel.skip_to(bootstrap.GREETING, _CONSOLE_LIMIT, deadline)
        channel.write(f"{len(_PROGRAM)}\n".encode() + _PROGRAM, deadline)
    channel.write(_MESSAGE, deadline)
    channel.skip_to(_MESSAGE, _CONSOLE_LIMIT, deadline)


def _start_once(launch: Launch, options: Any, image: Image | None) -> tuple[str, ...]:
    home = Home.from_environment().ensure()
    name = f"vtax-p{secrets.token_hex(2)}"
    directory = home.guests / name
    with Journal(home.journal) as journal:
        journal.register(Tree(str(directory)))
        (directory / "guest").mkdir(parents=True)
        resources = Resources(1, _MEMORY_BYTES, (min(os.sched_getaffinity(0)),))
        effective = image or host_image(directory / "image")
        spec = GuestSpec(name, effective, resources, directory / "guest", journal)
        guest = launch(options, spec, bootstrap.argv("-") if image else [_CAT])
        try:
            exchange(guest.channel, with_image=image is not None)
            return guest.notes
        finally:
            with suppress(VtaxError):
                guest.stop()
