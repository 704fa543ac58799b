"""How QEMU crashed: the function whose assertion failed, otherwise the signal that ended it.

A host's KVM that cannot do what it promises shows as an assertion of QEMU (`kvm_buf_set_msrs`). What QEMU writes then
is a line of its source, of no use to a reader.
"""

from __future__ import annotations

import re
import resource
import signal
from contextlib import suppress

# glibc: `FILE:LINE: FUNCTION: Assertion ... failed.`; glib: `ERROR:FILE:LINE:FUNCTION: assertion failed: ...`
_ASSERTION = re.compile(r":\d+: ?(?:[^:\n]*\W)?(\w+)(?:\([^:\n]*\))?: [Aa]ssertion ")
_CRASH = re.compile(r"QEMU (?:aborted in \w+|was ended by SIG\w+)")
_SHELLS_OFFSET = 128
"""Status of a program that a signal ended, less the signal, where a script wraps QEMU (sh(1))."""


def crash(status: int | None, stderr: str) -> str:
    """Return `QEMU aborted in FUNCTION` or `QEMU was ended by SIGNAL`; empty when QEMU runs or ended by itself.

    status: of the process as subprocess gives it; None while it runs, which it does a moment longer after it wrote of
    a failed assertion.
    """
    assertion = _ASSERTION.search(stderr)
    if assertion:
        return f"QEMU aborted in {assertion[1]}"
    if status is not None:
        with suppress(ValueError):
            number = -status if status < 0 else status - _SHELLS_OFFSET
            return f"QEMU was ended by {signal.Signals(number).name}"
    return ""


def crash_in(text: str) -> str:
    """Return the text of `crash` in a longer text that contains it; empty when it does not."""
    crashed = _CRASH.search(text)
    return crashed[0] if crashed else ""


def leave_no_core() -> None:
    """Between fork and exec: a crash writes no core file into the working directory."""
    _, maximum = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, maximum))
