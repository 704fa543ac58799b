"""Whether a QEMU machine works here, found out in a tenth of a second: run a program of 230 bytes in it.

The program is the machine's firmware. It goes from the reset vector through protected mode to 64-bit mode with
paging, as every kernel does, there executes a BMI2 instruction if the CPU claims to have them, writes one byte to the
debug console, and turns the machine off. A KVM without hardware support, which emulates supervisor code in software,
can pass for real until something asks it for such an instruction, which a kernel's own unpacking code does: that kind
is found out here at once, where starting a whole system would hang.
"""

from __future__ import annotations

import os
import secrets
import selectors
import subprocess
import time
from dataclasses import dataclass

from vtax.host.home import Home
from vtax.host.journal import Journal
from vtax.host.process import spawn
from vtax.host.resources import TaggedProcesses
from vtax.messages import Note
from vtax.platforms.qemu import command
from vtax.platforms.qemu.crash import crash, leave_no_core
from vtax.platforms.qemu.options import QemuOptions

_MEMORY_BYTES = 64 << 20
_EXIT_STATUS = 33  # isa-debug-exit answers 2 * value + 1 to the value 16 written to its port
_ROM_BYTES = 65536
_RESET_VECTOR, _START = 0xFFF0, 0xFF00
BROKEN = b"internal error"

# fmt: off
PROGRAM = bytes.fromhex(
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
    image[_START : _START + len(PROGRAM)] = PROGRAM
    jump = (_START - (_RESET_VECTOR + 3)) & 0xFFFF
    image[_RESET_VECTOR : _RESET_VECTOR + 3] = b"\xe9" + jump.to_bytes(2, "little")
    return bytes(image)


def run(options: QemuOptions, timeout_s: float) -> BootProbe:
    """Run the program in the machine and with the NICs that the options describe. Raises VtaxError or OSError."""
    started_at = time.monotonic()
    home = Home.from_environment().ensure()
    descriptor = os.memfd_create("vtax-firmware")
    try:
        os.write(descriptor, firmware())
        argv = [
            *command.machine(options, 1, _MEMORY_BYTES),
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
                problem, broken = _watch(process, started_at + timeout_s)
            finally:
                process.kill()
                process.communicate()
                registered.release()
    finally:
        os.close(descriptor)
    return BootProbe(problem, time.monotonic() - started_at, broken)


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
            if broken := [line for line in output["err"].splitlines() if BROKEN in line]:
                return broken[0].decode(errors="replace"), True
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
