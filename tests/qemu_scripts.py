"""Programs in QEMU's place, for hosts whose KVM is broken in a way that this host's is not."""

from collections.abc import Callable
from pathlib import Path

ABORTS = """cat >&2 <<'END'
qemu-system-x86_64: ../i386/kvm/kvm.c:3183: kvm_buf_set_msrs: Assertion `ret == cpu->kvm_msr_buf->nmsrs' failed.
END
kill -ABRT $$"""
SEGFAULTS = "kill -SEGV $$"
HANGS = "exec sleep 60"
NO_MODULE = """cat >&2 <<'END'
Could not access KVM kernel module: No such file or directory
qemu-system-x86_64: failed to initialize kvm: No such file or directory
END
exit 1"""
RUNS_THE_TEST_PROGRAM = 'case "$*" in *isa-debug-exit*) printf v; exit 33;; esac'


def put_in_qemus_place(script: str, on_path: Callable[[str, str], Path], devices: Path) -> None:
    """Make a shell script the QEMU of this process, and a file that opens its /dev/kvm."""
    version = '[ "$1" != --version ] || { echo "QEMU emulator version 7.2.22"; exit; }'
    on_path("qemu-system-x86_64", f"{version}\n{script}")
    on_path("qemu-img", "")
    (devices / "kvm").touch()
