"""Whether a QEMU platform runs here, found out in three steps, each only when the one before it passed.

1. Is everything there that it needs: programs, /dev/kvm, huge pages, the host's kernel.
2. A probe of the very machine (see qemu_boot), a tenth of a second. Then vhost, of no use without KVM.
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
from functools import partial
from pathlib import Path

from vtax.errors import GuestError, PlatformError, VtaxError
from vtax.guest.bootstrap import GREETING
from vtax.host import huge_pages, tsc
from vtax.host.architecture import HOST
from vtax.host.emulated_cpu import is_virtual, timeout_factor
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.process import find_program, run
from vtax.host.resources import Tree
from vtax.image import host_kernel
from vtax.image.image import Image
from vtax.messages import Note, at, packed, restored
from vtax.platforms import probing
from vtax.platforms.base import GuestSpec, Probe, Resources
from vtax.platforms.qemu import boot as qemu_boot
from vtax.platforms.qemu import shares as qemu_shares
from vtax.platforms.qemu.command import PROGRAM
from vtax.platforms.qemu.crash import crash_in
from vtax.platforms.qemu.options import QemuOptions
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
    """Return whether it runs here. Never raises. start: of the driver, for step 3."""
    started_at = time.monotonic()
    outcome = Probe(False, marks=marks(options))
    try:
        lacking = missing(options)
        if lacking:
            reason, hint = lacking
            outcome = replace(outcome, reason=reason, hint=hint)
        else:
            outcome = replace(outcome, version=_version())
            outcome = _booted(options, image, start, outcome, started_at)
    except VtaxError as error:
        outcome = replace(outcome, reason=at(error.what, error.where), hint=error.hint)
    except Exception as error:
        outcome = replace(outcome, reason=f"{type(error).__name__}: {error}")
    return replace(outcome, seconds=time.monotonic() - started_at)


def missing(options: QemuOptions) -> tuple[str, str] | None:
    """Return what is not there, and the hint. Raises ImageError for the host's kernel."""
    programs = probing.missing(_PACKAGES)
    if programs:
        return programs
    if "virtiofs" in options.shared_by and qemu_shares.daemon() is None:
        return probing.not_installed({"virtiofsd": "virtiofsd"})
    if os.geteuid() != 0:
        return Note("needs-root"), Note("hint-sudo")
    reason = probing.no_device("kvm") if options.accel == "kvm" else None
    if reason:
        return reason, _NO_KVM
    if options.machine == "microvm" and options.accel == "tcg" and tsc.frequency_khz() is None:
        return Note("microvm-clock"), ""
    if options.huge_pages and not huge_pages.available():
        return Note("no-huge-pages"), ""
    if options.kernel == "host":
        host_kernel.find()
    return None


def _booted(
    options: QemuOptions,
    image: Image | None,
    start: Start,
    outcome: Probe,
    started_at: float,
    boot: Callable[[QemuOptions, float], qemu_boot.BootProbe] = qemu_boot.run,
) -> Probe:
    """Return the outcome of steps 2 and 3. outcome: so far."""
    if HOST.has_boot_program:
        booted = boot(options, _BOOT_S * timeout_factor())
        if booted.problem:
            reason, hint = _failure(options, booted.problem, booted.broken)
            return replace(outcome, reason=reason, hint=hint)
    no_vhost = probing.no_device("vhost-net") if options.vhost == "on" else None
    if no_vhost:
        return replace(outcome, reason=no_vhost, hint=Note("hint-vhost"))
    if options.accel == "tcg" and HOST.has_boot_program:
        return replace(outcome, available=True)
    if image is None:
        code = "only-test-program" if HOST.has_boot_program else "no-test-program"
        return replace(outcome, available=True, reason=Note(code))
    files = (Path(find_program(PROGRAM) or PROGRAM), probing.DEVICES / "kvm")
    deadline = started_at + _GUEST_S[options.accel] * timeout_factor()
    start_once = partial(_guest_started, options, image, start, outcome, deadline)
    return cached(files, options, image, start_once)


def _failure(options: QemuOptions, problem: str, broken: bool) -> tuple[str, str]:
    """Return why the platform does not run, and the hint. broken: see qemu_boot.BootProbe."""
    kvm = probing.DEVICES / "kvm"
    if options.accel == "kvm":
        if broken:
            return Note("kvm-no-kernels", device=kvm, problem=problem), _BROKEN_KVM
        if "kvm" in problem.lower():
            return Note("kvm-unusable", device=kvm, problem=problem), _NO_KVM
    return Note("qemu-no-test", problem=problem), _NEWER_QEMU if broken else ""


def _guest_started(
    options: QemuOptions, image: Image, start: Start, outcome: Probe, deadline: float
) -> Probe:
    """Start a guest, wait for its bootstrap, and stop it."""
    home = Home.from_environment().ensure()
    name = f"vtax-p{secrets.token_hex(2)}"
    with Journal(home.journal) as journal:
        directory = home.guests / name
        journal.register(Tree(str(directory)))
        directory.mkdir(parents=True)
        resources = Resources(1, _MEMORY_BYTES, (min(os.sched_getaffinity(0)),))
        spec = GuestSpec(name, image, resources, directory, journal)
        try:
            _handshake(start(options, spec), deadline)
        except (GuestError, PlatformError) as error:
            reason: str = Note("image-not-booted", what=error.what, where=error.where)
            hint = error.hint
            crash = crash_in(error.where)
            if crash:
                reason, hint = _failure(options, crash, broken=True)
            return replace(outcome, reason=reason, hint=hint or _BROKEN_KVM)
    return replace(outcome, available=True)


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
            if over or qemu_boot.BROKEN in running.stderr.read_bytes():
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
    key = hashlib.sha256(repr(identity).encode()).hexdigest()[:16]
    file = Home.from_environment().root / "probes" / key
    with suppress(OSError, ValueError, TypeError):
        values = json.loads(file.read_text())
        texts = {name: restored(values[name]) for name in ("reason", "hint")}
        return Probe(**{**values, **texts, "marks": tuple(values["marks"])})
    outcome = find_out()
    file.parent.mkdir(parents=True, exist_ok=True)
    texts = {"reason": packed(outcome.reason), "hint": packed(outcome.hint)}
    # in place: a half of it is no JSON, and is as good as none
    file.write_text(json.dumps({**asdict(outcome), **texts}))
    return outcome


def marks(options: QemuOptions) -> tuple[str, ...]:
    """Return what is said beside all its figures."""
    if options.accel == "tcg":
        return ("emulated",)
    return ("nested",) if is_virtual() else ()


def _version() -> str:
    """Return `QEMU 7.2.22` out of `QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)`."""
    first = run([PROGRAM, "--version"]).stdout.splitlines()[0]
    return first.replace("emulator version ", "").partition(" (")[0]
