"""Whether a QEMU platform runs here, found out in three steps, each only when the one before it passed.

1. Is everything there that it needs: programs, /dev/kvm, huge pages, the host's kernel.
2. The very machine runs a program of 230 bytes, in a tenth of a second. Then vhost, of no use without KVM.
3. With KVM and an image: a whole guest that must answer, since a virtualization that is itself virtual can fail later
   than any small program shows. Emulation has no such surprises. The outcome of a whole start is kept until the host
   boots again or anything that decides it changes.

The program of step 2 is the machine's firmware. It goes from the reset vector through protected mode to 64-bit mode
with paging, as every kernel does, there executes a BMI2 instruction if the CPU claims to have them, writes one byte to
the debug console, and turns the machine off. A KVM without hardware support, which emulates supervisor code in
software, can pass for real until something asks it for such an instruction, which a kernel's own unpacking code does:
that kind is found out here at once, where starting a whole system would hang.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import selectors
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from vtax.errors import GuestError, PlatformError, VtaxError
from vtax.guest.bootstrap import GREETING
from vtax.host import huge_pages, tsc
from vtax.host.architecture import HOST
from vtax.host.emulated_cpu import is_virtual, timeout_factor
from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.process import find_program, run, spawn
from vtax.host.resources import TaggedProcesses, Tree
from vtax.image import host_kernel
from vtax.image.image import Image
from vtax.messages import Note, at, packed, restored
from vtax.platforms import probing
from vtax.platforms.base import GuestSpec, Probe, Resources
from vtax.platforms.qemu import command
from vtax.platforms.qemu import shares as qemu_shares
from vtax.platforms.qemu.command import QemuOptions
from vtax.platforms.qemu.process import crash, crash_in, leave_no_core
from vtax.platforms.stdio import StdioGuest

_PROGRAM_BYTES = 64 << 20
_EXIT_STATUS = 33  # isa-debug-exit answers 2 * value + 1 to the value 16 written to its port
_ROM_BYTES = 65536
_RESET_VECTOR, _START = 0xFFF0, 0xFF00
BROKEN = b"internal error"

# fmt: off
TEST_PROGRAM = bytes.fromhex(
    # 16-bit, at 0xffffff00: load the descriptor table, turn on protection, jump to 32-bit code
    "fa 2e660f0116e0ff 0f20c0 0c01 0f22c0 66ea18ffffff0800"
    # 32-bit: flat segments; page tables for the first 2 MiB and for the firmware itself
    "b810000000 8ed8 8ec0 8ed0"
    "c7050010000003200000 c7050020000003300000 c7051820000003400000"
    "c7050030000083000000 c705f84f00008300e0ff"
    # page tables in CR3, PAE in CR4, long mode in EFER, paging in CR0, jump to 64-bit code
    "b800100000 0f22d8 0f20e0 83c820 0f22e0 b9800000c0 0f32 0d00010000 0f30 0f20c0 0d00000080 0f22c0 ea86ffffff1800"
    # 64-bit: if CPUID leaf 7 says BMI2, shift 1 left by 3 with it
    "31c0 0fa2 83f807 7220 b807000000 31c9 0fa2 f7c300010000 740f b801000000 b903000000 c4e2f1f7c0"
    # write 'v' to the debug console and 16 to the exit device, then halt for ever
    "b076 e6e9 b010 e6f4 f4 ebfd 660f1f440000"
    # descriptor table: none, 32-bit code, data, 64-bit code; its limit and address
    "0000000000000000 ffff0000009bcf00 ffff00000093cf00 ffff0000009baf00 1f00 c0ffffff"
)
# fmt: on


@dataclass(frozen=True)
class BootProbe:
    """The outcome.

    problem: empty when the program ran to its end.
    broken: the machine was there and did not run it, which is not a matter of options, programs or permissions.
    """

    problem: str
    seconds: float
    broken: bool = False


def firmware() -> bytes:
    """Return the program as a 64 KiB firmware image."""
    image = bytearray(_ROM_BYTES)
    image[_START : _START + len(TEST_PROGRAM)] = TEST_PROGRAM
    jump = (_START - (_RESET_VECTOR + 3)) & 0xFFFF
    image[_RESET_VECTOR : _RESET_VECTOR + 3] = b"\xe9" + jump.to_bytes(2, "little")
    return bytes(image)


def run_program(options: QemuOptions, timeout_s: float) -> BootProbe:
    """Run the program in the machine and with the NICs that the options describe. Raises VtaxError or OSError."""
    started_at = time.monotonic()
    home = Home.from_environment().ensure()
    descriptor = os.memfd_create("vtax-firmware")
    try:
        os.write(descriptor, firmware())
        argv = [
            *command.machine(options, 1, _PROGRAM_BYTES),
            *("-bios", f"/proc/{os.getpid()}/fd/{descriptor}", "-debugcon", "stdio"),
            *("-device", "isa-debug-exit,iobase=0xf4,iosize=1"),
            *command.network(
                options, [command.Nic("52:54:00:00:00:01", queues=options.queues)], vhost=False
            ),
        ]
        with Journal(home.journal) as journal:
            tag = f"vtax-trial-{secrets.token_hex(4)}"
            registered = journal.register(TaggedProcesses(tag, "a probe of QEMU"))
            process = spawn(
                argv,
                tag=tag,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                before_exec=leave_no_core,
            )
            try:
                problem, is_broken = _watch(process, started_at + timeout_s)
            finally:
                process.kill()
                process.communicate()
                registered.release()
    finally:
        os.close(descriptor)
    return BootProbe(problem, time.monotonic() - started_at, is_broken)


def _watch(process: subprocess.Popen[bytes], deadline: float) -> tuple[str, bool]:
    """Wait for the end, or the first sign that it will not come; returns the problem and whether all is broken."""
    assert process.stdout is not None
    assert process.stderr is not None
    output = {"out": b"", "err": b""}
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, "out")
        selector.register(process.stderr, selectors.EVENT_READ, "err")
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                return Note("machine-silent"), True
            for key, _ in ready:
                part = os.read(key.fd, 65536)
                output[key.data] += part
                if not part:
                    selector.unregister(key.fileobj)
            for line in output["err"].splitlines():
                if BROKEN in line:
                    return line.decode(errors="replace"), True
    status = process.wait()
    if status == _EXIT_STATUS and output["out"] == b"v":
        return "", False
    errors = output["err"].decode(errors="replace")
    if crashed := crash(status, errors):
        return crashed, True
    lines = [line for line in errors.splitlines() if ": warning: " not in line]
    if not lines:
        return Note("qemu-ended", status=status), False
    return lines[-1].removeprefix(f"{command.PROGRAM}: "), False


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
        missing_programs = missing(options)
        if missing_programs:
            reason, hint = missing_programs
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
    boot: Callable[[QemuOptions, float], BootProbe] = run_program,
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
    files = (Path(find_program(command.PROGRAM) or command.PROGRAM), probing.DEVICES / "kvm")
    deadline = started_at + _GUEST_S[options.accel] * timeout_factor()
    start_once = partial(_guest_started, options, image, start, outcome, deadline)
    return cached(files, options, image, start_once)


def _failure(options: QemuOptions, problem: str, is_broken: bool) -> tuple[str, str]:
    """Return why the platform does not run, and the hint. is_broken: as in BootProbe."""
    kvm = probing.DEVICES / "kvm"
    if options.accel == "kvm":
        if is_broken:
            return Note("kvm-no-kernels", device=kvm, problem=problem), _BROKEN_KVM
        if "kvm" in problem.lower():
            return Note("kvm-unusable", device=kvm, problem=problem), _NO_KVM
    return Note("qemu-no-test", problem=problem), _NEWER_QEMU if is_broken else ""


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
                reason, hint = _failure(options, crash, is_broken=True)
            return replace(outcome, reason=reason, hint=hint or _BROKEN_KVM)
    return replace(outcome, available=True)


def _handshake(guest: StdioGuest, deadline: float) -> None:
    try:
        await_greeting(guest, deadline)
    finally:
        with suppress(VtaxError):
            guest.stop()


def await_greeting(guest: StdioGuest, deadline: float) -> None:
    """Wait for a guest's bootstrap; give up as soon as QEMU complains that the machine is broken (it waits then)."""
    while True:
        try:
            guest.channel.read(len(GREETING), min(deadline, time.monotonic() + _POLL_S))
            return
        except GuestError:
            over = time.monotonic() >= deadline or guest.process.poll() is not None
            if over or BROKEN in guest.stderr.read_bytes():
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
    first = run([command.PROGRAM, "--version"]).stdout.splitlines()[0]
    return first.replace("emulator version ", "").partition(" (")[0]
