"""Whether a QEMU platform runs here, found out in three steps, each only when the one before it passed.

1. Is everything there that it needs: programs, /dev/kvm, the host's kernel.
2. A probe of the very machine (see _qemu_boot), a tenth of a second. Then vhost, of no use without KVM.
3. With KVM and an image: a whole guest that must answer, since a virtualization that is itself virtual can fail later
   than any small program shows. Emulation has no such surprises. The outcome of a whole start is kept until the host
   boots again or anything that decides it changes.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from vtax.errors import GuestError, PlatformError, VtaxError
from vtax.guest.bootstrap import GREETING
from vtax.host import tsc
from vtax.host.architecture import HOST
from vtax.host.emulated_cpu import is_virtual, timeout_factor
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.process import find_program, run
from vtax.host.resources import Tree
from vtax.image import host_kernel
from vtax.image.image import Image
from vtax.messages import Note, at, packed, restored
from vtax.platforms import _qemu_boot, _qemu_shares, probing
from vtax.platforms._qemu_command import PROGRAM
from vtax.platforms._qemu_crash import crash_in
from vtax.platforms._qemu_options import QemuOptions
from vtax.platforms.base import GuestSpec, Probe, Resources
from vtax.platforms.stdio import StdioGuest

Start = Callable[[QemuOptions, GuestSpec], StdioGuest]
_BOOT_S = 6.0
_GUEST_S = {"kvm": 19.0, "tcg": 120.0}
_POLL_S = 0.5
_MEMORY_BYTES = 256 << 20
_PACKAGES = {HOST.qemu: HOST.qemu_package, "qemu-img": "qemu-utils"}
_NO_KVM = Note("hint-virtualization")
_NEWER_QEMU = Note("hint-other-qemu")
_BROKEN_KVM = Note("hint-real-kvm")


def probe(options: QemuOptions, image: Image | None, start: Start) -> Probe:
    """Never raises. start: of the driver, for step 3."""
    started_at = time.monotonic()
    found = Probe(False, marks=_marks(options))
    try:
        if lacking := missing(options):
            found = replace(found, reason=lacking[0], hint=lacking[1])
        else:
            found = replace(found, version=_version())
            found = _booted(options, image, start, found, started_at)
    except VtaxError as error:
        found = replace(found, reason=at(error.what, error.where), hint=error.hint)
    except Exception as error:
        found = replace(found, reason=f"{type(error).__name__}: {error}")
    return replace(found, seconds=time.monotonic() - started_at)


def missing(options: QemuOptions) -> tuple[str, str] | None:
    """Return what is not there, and the hint. Raises ImageError for the host's kernel."""
    if lacking := probing.missing(_PACKAGES):
        return lacking
    if "virtiofs" in options.shared_by and _qemu_shares.daemon() is None:
        return probing.not_installed({"virtiofsd": "virtiofsd"})
    if os.geteuid() != 0:
        return Note("needs-root"), Note("hint-sudo")
    if options.accel == "kvm" and (reason := probing.no_device("kvm")):
        return reason, _NO_KVM
    if options.machine == "microvm" and options.accel == "tcg" and tsc.frequency_khz() is None:
        return Note("microvm-clock"), ""
    if options.kernel == "host":
        host_kernel.find()
    return None


def _booted(
    options: QemuOptions,
    image: Image | None,
    start: Start,
    found: Probe,
    started_at: float,
    boot: Callable[[QemuOptions, float], _qemu_boot.BootProbe] = _qemu_boot.run,
) -> Probe:
    if HOST.has_boot_program:
        booted = boot(options, _BOOT_S * timeout_factor())
        if booted.problem:
            reason, hint = _failure(options, booted.problem, booted.broken)
            return replace(found, reason=reason, hint=hint)
    if options.vhost == "on" and (lacking := probing.no_device("vhost-net")):
        return replace(found, reason=lacking, hint=Note("hint-vhost"))
    if options.accel == "tcg" and HOST.has_boot_program:
        return replace(found, available=True)
    if image is None:
        code = "only-test-program" if HOST.has_boot_program else "no-test-program"
        return replace(found, available=True, reason=Note(code))
    return cached(
        (Path(find_program(PROGRAM) or PROGRAM), probing.DEVICES / "kvm"),
        options,
        image,
        lambda: _guest_started(
            options, image, start, found, started_at + _GUEST_S[options.accel] * timeout_factor()
        ),
    )


def _failure(options: QemuOptions, problem: str, broken: bool) -> tuple[str, str]:
    """Why the platform does not run, and the hint. broken: see _qemu_boot.BootProbe."""
    kvm = probing.DEVICES / "kvm"
    if options.accel == "kvm":
        if broken:
            return Note("kvm-no-kernels", device=kvm, problem=problem), _BROKEN_KVM
        if "kvm" in problem.lower():
            return Note("kvm-unusable", device=kvm, problem=problem), _NO_KVM
    return Note("qemu-no-test", problem=problem), _NEWER_QEMU if broken else ""


def _guest_started(
    options: QemuOptions, image: Image, start: Start, found: Probe, deadline: float
) -> Probe:
    """Start a guest, wait for its bootstrap, and stop it."""
    home = Home.from_environment().ensure()
    name = f"vtax-p{secrets.token_hex(2)}"
    with Journal(home.journal) as journal:
        directory = home.guests / name
        journal.register(Tree(str(directory)))
        directory.mkdir(parents=True)
        resources = Resources(1, _MEMORY_BYTES, (min(os.sched_getaffinity(0)),))
        try:
            _handshake(
                start(options, GuestSpec(name, image, resources, directory, journal)), deadline
            )
        except (GuestError, PlatformError) as error:
            if crashed := crash_in(error.where):
                reason, hint = _failure(options, crashed, broken=True)
            else:
                reason, hint = (
                    Note("image-not-booted", what=error.what, where=error.where),
                    error.hint,
                )
            return replace(found, reason=reason, hint=hint or _BROKEN_KVM)
    return replace(found, available=True)


def _handshake(running: StdioGuest, deadline: float) -> None:
    try:
        await_greeting(running, deadline)
    finally:
        with suppress(VtaxError):
            running.stop()


def await_greeting(running: StdioGuest, deadline: float) -> None:
    """Wait for a guest's bootstrap; give up as soon as QEMU complains that the machine is broken (it waits then)."""
    while True:
        try:
            running.channel.read(len(GREETING), min(deadline, time.monotonic() + _POLL_S))
            return
        except GuestError:
            over = time.monotonic() >= deadline or running.process.poll() is not None
            if over or _qemu_boot.BROKEN in running.stderr.read_bytes():
                raise


def cached(
    files: Sequence[Path], options: QemuOptions, image: Image, find_out: Callable[[], Probe]
) -> Probe:
    """Return the answer of an earlier probe of the same thing since the host booted, else a new one, kept.

    files: of the host, whose change makes it another thing.
    """
    identity = (
        Path("/proc/sys/kernel/random/boot_id").read_text(),
        *(path.stat().st_ctime_ns for path in files),
        image.key,
        options.model_dump_json(),
    )
    kept = (
        Home.from_environment().root
        / "probes"
        / hashlib.sha256(repr(identity).encode()).hexdigest()[:16]
    )
    with suppress(OSError, ValueError, TypeError):
        values = json.loads(kept.read_text())
        texts = {name: restored(values[name]) for name in ("reason", "hint")}
        return Probe(**{**values, **texts, "marks": tuple(values["marks"])})
    found = find_out()
    kept.parent.mkdir(parents=True, exist_ok=True)
    texts = {"reason": packed(found.reason), "hint": packed(found.hint)}
    kept.write_text(
        json.dumps({**asdict(found), **texts})
    )  # in place: a half of it is no JSON, and is as good as none
    return found


def _marks(options: QemuOptions) -> tuple[str, ...]:
    if options.accel == "tcg":
        return ("emulated",)
    return ("nested",) if is_virtual() else ()


def _version() -> str:
    """`QEMU 7.2.22` out of `QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)`."""
    first = run([PROGRAM, "--version"]).stdout.splitlines()[0]
    return first.replace("emulator version ", "").partition(" (")[0]
