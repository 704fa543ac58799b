"""Reboots of this host for a run that goes on in another boot: the request, the unit that goes on, and their removal.

A file in the home (`Home.reboots`) is written before anything else of a reboot, and removed after it. It counts
reboots, so that no failure makes more than were planned. The systemd unit is made for one reboot: it removes itself
before it starts vtax, whatever becomes of that, and vtax goes on only within a day after the request. So nothing
measures or reboots in a later boot. The environment of the command that asked for the reboot is in a script that only
root can read, since a store's address may contain a password and everybody may read a unit.

Nothing of others is changed: the unit has a mark of its home, and an entry for the next boot is removed only if it is
the one that was requested.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import vtax
from vtax.errors import BadInput, VtaxError
from vtax.host import boot_loaders
from vtax.host.boot_loaders import Entry, Loader
from vtax.host.home import Home
from vtax.host.journal import boot_id
from vtax.host.process import run

UNIT = "vtax-resume.service"
SCRIPT = "vtax-resume.sh"  # systemd reads no file of this suffix
_UNITS = "etc/systemd/system"
_WANTED_BY = "multi-user.target"
_MARK = "# made by vtax for the home "
_VARIABLES = ("VTAX_HOME", "VTAX_STORE", "PYTHONPATH", "PATH", "HOME", "SUDO_USER", "SUDO_UID", "SUDO_GID")
_AWAITED_S = 86400.0  # clocks of two boots may differ by a time zone, where one of them takes the host's as UTC
_TEXT = """{mark}
[Unit]
Description=Resumes the run {run} of vtax after a reboot
After={target} network-online.target

[Service]
Type=oneshot
ExecStartPre=/bin/rm -f {link} {unit}
ExecStart=/bin/sh {script}
KillMode=mixed
TimeoutStopSec=5min
TasksMax=infinity
"""


@dataclass(frozen=True)
class Reboots:
    """Reboots of a run. planned, made: their numbers; one that was requested counts as made.

    boot: the study's name of the boot that was requested; empty when none is awaited. entry: its id. boot_id: of the
    boot in which it was requested. requested_at: Unix time.
    """

    run: str
    planned: int
    made: int = 0
    boot: str = ""
    entry: str = ""
    boot_id: str = ""
    requested_at: float = 0.0

    @property
    def is_to_come(self) -> bool:
        """Whether a reboot was requested that has not happened."""
        return bool(self.boot) and self.boot_id == boot_id()

    @property
    def came_up(self) -> bool:
        """Whether a requested reboot has happened."""
        return bool(self.boot) and self.boot_id != boot_id()

    @property
    def is_too_late(self) -> bool:
        """Whether the request is so old that the run must not go on by itself."""
        return abs(time.time() - self.requested_at) > _AWAITED_S


def check_possible() -> Loader:
    """Return the host's boot loader. Raises BadInput unless vtax can reboot this host and go on."""
    loader = boot_loaders.loader()
    if not (boot_loaders.ROOT / "run/systemd/system").is_dir():
        hint = "reboot by hand instead: vtax run STUDY, then vtax resume RUN in the other boot"
        raise BadInput("--reboot needs systemd as PID 1", hint=hint)
    return loader


def read(home: Home) -> Reboots | None:
    """Return what was written last; None without a run that reboots. Raises VtaxError for a file that cannot be
    read."""
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
    _written_beside(home.reboots, json.dumps(asdict(state)), 0o600).rename(home.reboots)
    _sync(home.root)


def refuse_others(home: Home, loader: Loader) -> None:
    """Raise BadInput where a reboot would overwrite a unit or an entry for the next boot that this home did not make.

    For a home without a reboot to come.
    """
    for path in _paths():
        mark = _mark_of(path)
        if not os.path.lexists(path) or mark == _mark(home):
            continue
        hint = f"rm {path}, if nothing needs it; or reboot by hand"
        if mark.startswith(_MARK):
            hint = f"sudo VTAX_HOME={mark.removeprefix(_MARK)} vtax clean, if its run is not to go on"
        raise BadInput(
            f"vtax made no {path.name} for the home {home.root}, and there is one", where=str(path), hint=hint
        )
    if chosen := loader.next_entry():
        raise BadInput(
            f"{loader.name} boots {chosen!r} the next time, which vtax did not set",
            hint=f"reboot first, or have it forget that: {loader.forget_next}",
        )


def request(home: Home, state: Reboots, boot: str, entry: Entry, loader: Loader, arguments: Sequence[str]) -> Reboots:
    """Have the host boot an entry once, and the run go on there. arguments: of vtax, for the unit.

    The state is written first; it is returned. Raises VtaxError when the plan has no further reboot, for what the
    loader refuses, and as `refuse_others`.
    """
    if state.made >= state.planned:
        raise VtaxError(
            f"{state.run} made its {state.planned} planned reboots, and makes no further one",
            hint=f"go on by hand in the boot {boot!r}: sudo vtax resume {state.run}",
        )
    refuse_others(home, loader)
    awaited = replace(
        state, made=state.made + 1, boot=boot, entry=entry.id, boot_id=boot_id(), requested_at=time.time()
    )
    write(home, awaited)
    try:
        _make_unit(home, state.run, arguments)
    except OSError as error:
        hint = f"reboot by hand, then: sudo vtax resume {state.run}"
        raise VtaxError(f"{UNIT} cannot be made: {error.strerror}", where=str(error.filename), hint=hint) from error
    loader.set_next(entry.id)
    if (chosen := loader.next_entry()) != entry.id:
        raise VtaxError(f"{loader.name} did not accept {entry.id!r} for the next boot: it has {chosen or 'none'!r}")
    os.sync()
    return awaited


def reboot() -> None:
    """Have systemd reboot the host in an orderly way. Raises CommandFailed when it refuses."""
    run(["systemctl", "--no-block", "reboot"])


def settle(home: Home, state: Reboots) -> Reboots:
    """Remove the unit and the entry for the next boot; the count stays."""
    _remove_unit(home)
    _clear_next(state)
    settled = Reboots(state.run, state.planned, state.made)
    write(home, settled)
    return settled


def goes_on(home: Home) -> bool:
    """Return whether the unit of this home starts soon, or has started and not measured yet."""
    try:
        state = read(home)
    except VtaxError:
        return False
    return state is not None and state.came_up and (_mark_of(_paths()[1]) == _mark(home) or _is_starting())


def _is_starting() -> bool:
    """Return whether the unit runs. It has removed its file then, and waits perhaps for another command of vtax."""
    try:
        return run(["systemctl", "is-active", UNIT], check=False).stdout.strip() == "activating"
    except VtaxError:  # no systemctl
        return False


def cancel(home: Home) -> list[str]:
    """Remove everything of reboots that this home made. Returns what was removed, one line each.

    Raises VtaxError, after all else is removed, when the boot loader does not say what it boots the next time.
    """
    removed = [f"unit {UNIT}"] if _remove_unit(home) else []
    if not home.reboots.exists():
        return removed
    try:
        state = read(home)
    except VtaxError:  # damaged: which entry is ours is not known
        state = None
    try:
        if state is not None and (entry := _clear_next(state)):
            removed.append(f"entry for the next boot: {entry}")
    except VtaxError as error:
        assert state is not None
        what = f"the boot loader may boot {state.entry!r} the next time, which vtax set: {error}"
        hint = "all else of that reboot is removed; look at the entry for the next boot"
        raise VtaxError(what, hint=hint) from error
    finally:
        home.reboots.unlink(missing_ok=True)
        _sync(home.root)
    return [*removed, f"state of reboots: {home.reboots}"]


def _clear_next(state: Reboots) -> str:
    """Boot the default again the next time, if the entry that was requested is set; that entry, or empty."""
    try:
        loader = boot_loaders.loader()
    except BadInput:
        return ""
    if not state.entry or loader.next_entry() != state.entry:
        return ""
    loader.set_next("")
    return state.entry


def _paths() -> tuple[Path, Path, Path]:
    """Return the link that starts the unit at boot, the unit, and the script that it executes."""
    units = boot_loaders.ROOT / _UNITS
    return units / f"{_WANTED_BY}.wants" / UNIT, units / UNIT, units / SCRIPT


def _mark(home: Home) -> str:
    return f"{_MARK}{shlex.quote(str(home.root))}".replace("\n", " ")


def _mark_of(file: Path) -> str:
    """Return the first line of a file of _paths(); empty where there is none."""
    try:
        return os.fsdecode(file.read_bytes().partition(b"\n")[0])
    except OSError:
        return ""


def _make_unit(home: Home, run_name: str, arguments: Sequence[str]) -> None:
    """Files alone: systemd reads them at the next boot, and this one starts nothing."""
    _remove_unit(home)
    link, unit, script = _paths()
    mark = _mark(home)
    _write_new(script, _script(mark, home, [sys.executable, "-m", "vtax", *arguments]), 0o600)
    text = _TEXT.format(mark=mark, run=run_name, target=_WANTED_BY, unit=unit, link=link, script=script)
    _write_new(unit, text, 0o644)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(unit)
    _sync(link.parent)
    _sync(unit.parent)


def _write_new(path: Path, text: str, mode: int) -> None:
    """Write a file that is there whole or not at all, and that takes the place of none. Raises OSError."""
    partial = _written_beside(path, text, mode)
    try:
        path.hardlink_to(partial)
    finally:
        partial.unlink()


def _written_beside(path: Path, text: str, mode: int) -> Path:
    """Return a file with a text beside a path, whole and on disk. Raises OSError; then there is none."""
    partial = path.with_name(f".{path.name}.partial")  # systemd reads no hidden file
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(os.fsencode(text))
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        partial.unlink()
        raise
    return partial


def _script(mark: str, home: Home, command: Sequence[str]) -> str:
    """Return a script that removes itself, and executes a command in the environment of this process."""
    kept = {name: os.environ[name] for name in _VARIABLES if os.environ.get(name)}
    kept["VTAX_HOME"] = str(home.root)
    if "VTAX_STORE" in kept:
        kept["VTAX_STORE"] = _absolute_store(kept["VTAX_STORE"])
    if (package := str(Path(vtax.__file__).parents[1])) == sys.path[0]:  # python -m vtax, from there
        kept["PYTHONPATH"] = os.pathsep.join([kept.get("PYTHONPATH", ""), package])
    for name in ("PATH", "PYTHONPATH"):
        if name in kept:
            kept[name] = os.pathsep.join(str(Path(each).absolute()) for each in kept[name].split(os.pathsep) if each)
    variables = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in kept.items())
    return f'{mark}\nrm -f -- "$0"\n{variables}exec {shlex.join(command)}\n'


def _absolute_store(url: str) -> str:
    """Return the address of a store; a relative path of a SQLite file is made absolute."""
    scheme, _, path = url.partition(":///")
    is_relative = scheme.startswith("sqlite") and path and not path.startswith(("/", ":memory:", "file:"))
    return f"{scheme}:///{Path.cwd()}/{path}" if is_relative else url


def _remove_unit(home: Home) -> bool:
    """Remove what this home made of a unit. Whether there was anything."""
    ours = [path for path in _paths() if _mark_of(path) == _mark(home)]
    for path in ours:
        path.unlink()
    return bool(ours)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
