"""Reboots of this host for a run that goes on in another boot: the request, the unit that goes on, and their removal.

A file in the home (`Home.reboots`) is written before anything else of a reboot, and removed after it: while it is
there, there may be a unit and an entry for the next boot. It counts reboots, so that no failure makes more than were
planned. The systemd unit is made for one reboot, and is removed when the host is up again: a host that fails while it
measures goes on with nothing.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from vtax.errors import BadInput, VtaxError
from vtax.host import boot_loaders
from vtax.host.boot_loaders import Entry, Loader
from vtax.host.home import Home
from vtax.host.journal import boot_id
from vtax.host.process import run

UNIT = "vtax-resume.service"
_UNITS = "etc/systemd/system"
_WANTED_BY = "multi-user.target"
_KEPT_VARIABLES = ("VTAX_HOME", "VTAX_STORE", "PYTHONPATH", "PATH")
_TEXT = """[Unit]
Description=Resumes the run {run} of vtax after a reboot
After={target} network-online.target

[Service]
Type=oneshot
{environment}ExecStart={command}
KillMode=mixed
TimeoutStopSec=5min
TasksMax=infinity
"""


@dataclass(frozen=True)
class Reboots:
    """Reboots of a run. planned, made: their numbers; one that was requested counts as made.

    boot: the study's name of the boot that was requested; empty when none is awaited. entry: its id. boot_id: of the
    boot in which it was requested.
    """

    run: str
    planned: int
    made: int = 0
    boot: str = ""
    entry: str = ""
    boot_id: str = ""

    @property
    def came_up(self) -> bool:
        """Whether a requested reboot has happened."""
        return bool(self.boot) and self.boot_id != boot_id()


def check_possible() -> Loader:
    """The host's boot loader. Raises BadInput unless vtax can reboot this host and go on."""
    if not (boot_loaders.ROOT / "run/systemd/system").is_dir():
        hint = "reboot by hand instead: vtax run STUDY, then vtax resume RUN in the other boot"
        raise BadInput("--reboot goes on by a unit of systemd, which does not run this host", hint=hint)
    return boot_loaders.loader()


def read(home: Home) -> Reboots | None:
    """What was written last; None without a run that reboots. Raises VtaxError for a file that cannot be read."""
    try:
        return Reboots(**json.loads(home.reboots.read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise VtaxError(
            f"the state of reboots cannot be read: {error}",
            where=str(home.reboots),
            hint="sudo vtax clean removes it",
        ) from error


def write(home: Home, state: Reboots) -> None:
    """Write the state; it is on disk, whole, when this returns."""
    partial = home.reboots.with_suffix(".partial")
    with partial.open("w") as file:
        os.fchmod(file.fileno(), 0o600)
        json.dump(asdict(state), file)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(home.reboots)
    _sync(home.root)


def request(home: Home, state: Reboots, boot: str, entry: Entry, loader: Loader, arguments: Sequence[str]) -> None:
    """Have the host boot an entry once, and the run go on there. arguments: of vtax, for the unit.

    The state is written first. Raises VtaxError when the plan has no further reboot, or for what the loader refuses.
    """
    if state.made >= state.planned:
        raise VtaxError(
            f"{state.run} made its {state.planned} planned reboots, and makes no further one",
            hint=f"go on by hand in the boot {boot!r}: sudo vtax resume {state.run}",
        )
    write(home, replace(state, made=state.made + 1, boot=boot, entry=entry.id, boot_id=boot_id()))
    _make_unit(state.run, arguments)
    loader.set_next(entry.id)
    if (chosen := loader.next_entry()) != entry.id:
        raise VtaxError(f"{loader.name} did not accept {entry.id!r} for the next boot: it has {chosen or 'none'!r}")
    os.sync()


def reboot() -> None:
    """Reboot the host in an orderly way. Raises CommandFailed."""
    run(["systemctl", "reboot"])


def settle(home: Home, state: Reboots) -> Reboots:
    """Remove the unit and the entry for the next boot; the count stays."""
    _remove_unit()
    _clear_next()
    settled = replace(state, boot="", entry="", boot_id="")
    write(home, settled)
    return settled


def cancel(home: Home) -> list[str]:
    """Remove everything of reboots. Returns what was removed, one line each."""
    if not home.reboots.exists():
        return []
    removed = [f"unit {UNIT}"] if _remove_unit() else []
    if entry := _clear_next():
        removed.append(f"entry for the next boot: {entry}")
    home.reboots.unlink()
    _sync(home.root)
    return [*removed, f"state of reboots: {home.reboots}"]


def _clear_next() -> str:
    """Boot the default again the next time; the entry that would have been booted, empty for none."""
    try:
        loader = boot_loaders.loader()
    except BadInput:
        return ""
    if entry := loader.next_entry():
        loader.set_next("")
    return entry


def _unit_paths() -> tuple[Path, Path]:
    """The unit, and the link that starts it at boot."""
    units = boot_loaders.ROOT / _UNITS
    return units / UNIT, units / f"{_WANTED_BY}.wants" / UNIT


def _make_unit(run_name: str, arguments: Sequence[str]) -> None:
    """Files alone: systemd reads them at the next boot, and this one starts nothing."""
    unit, link = _unit_paths()
    variables = [f"{name}={os.environ[name]}" for name in _KEPT_VARIABLES if os.environ.get(name)]
    command = [sys.executable, "-m", "vtax", *arguments]
    unit.write_text(
        _TEXT.format(
            run=run_name,
            target=_WANTED_BY,
            environment="".join(f"Environment={_quoted(variable)}\n" for variable in variables),
            command=" ".join(map(_quoted, command)),
        )
    )
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(unit)
    _sync(unit.parent)


def _remove_unit() -> bool:
    """Whether there was one."""
    found = False
    for path in reversed(_unit_paths()):
        if path.is_symlink() or path.exists():
            path.unlink()
            found = True
    return found


def _quoted(word: str) -> str:
    """A word of a unit file: its specifiers and quotes kept as they are (systemd.syntax(7))."""
    text = word.replace("%", "%%").replace("$", "$$").replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"' if shlex.quote(word) != word or text != word else word


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
